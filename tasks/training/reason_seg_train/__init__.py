"""ReasonSeg's training images, each with all of its wordings."""

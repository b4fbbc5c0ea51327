"""ReasonSeg's training pictures, each with all of its wordings."""

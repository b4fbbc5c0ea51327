"""ReasonSeg: segment the objects that a question is about."""

"""ReasonSeg: segment what a question is about."""

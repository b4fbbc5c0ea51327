"""Ref-DAVIS17: segment the referent of an expression, in every frame, by four annotators."""

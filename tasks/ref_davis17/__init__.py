"""Ref-DAVIS17: segment what an expression refers to, in every frame, by four annotators."""

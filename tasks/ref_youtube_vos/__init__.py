"""Ref-YouTube-VOS: segment the referent of an expression, in every frame."""

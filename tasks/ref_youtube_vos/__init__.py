"""Ref-YouTube-VOS: segment what an expression refers to, in every frame."""

"""Ref-SAV: segment what a long or a short description of an object in SA-V says."""

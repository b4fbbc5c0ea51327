"""Seg-Zero's 9,000 expressions of RefCOCOg for one object each."""

"""Seg-Zero's prompt and grammar (one object: a box and two points), and the adapter."""

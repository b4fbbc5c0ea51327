"""Charades-STA: the stretch of a video in which a sentence is true."""

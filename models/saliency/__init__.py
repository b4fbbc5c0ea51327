"""Saliency: a reasoner without weights that never reads the question."""

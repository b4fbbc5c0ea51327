"""Perception nodes of digital twins: networks with weights, and methods that need no download."""

"""Perception nodes: real networks with local or hub weights, and real ones without a download."""

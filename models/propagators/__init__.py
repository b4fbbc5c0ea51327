"""Propagators: masks in one frame in, masks in all frames out."""

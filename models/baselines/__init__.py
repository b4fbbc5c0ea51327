"""Baselines that do not look at the media; a useful model scores above them."""

"""Baselines: models that look at nothing, below which a score means nothing."""

"""Metrics that need a network: they live with the models, so that scoring imports no framework."""

"""Predictions from elsewhere, as a model."""

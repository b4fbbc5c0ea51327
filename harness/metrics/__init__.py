"""Metrics: pure functions of truth and prediction, equal bit for bit to the official scorers'."""

"""Metrics: pure functions of ground truth and prediction, equal to official scorers to the bit."""

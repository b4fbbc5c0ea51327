"""Metrics: pure functions of ground truth and prediction, equal bit for bit to the official
scorers'.
"""

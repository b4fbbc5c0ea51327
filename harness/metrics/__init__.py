"""Metrics as pure functions of ground truth and prediction, which the tasks' scorers call.

Where a benchmark has an official scorer, a function equals it to the bit, and names its commit.
"""

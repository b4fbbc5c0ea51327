"""Intervals, paired comparisons and the power of comparisons, clustered by group."""

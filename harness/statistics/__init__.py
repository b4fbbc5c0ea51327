"""Intervals, paired comparisons and what a comparison could have seen, clustered by group."""

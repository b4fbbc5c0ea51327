"""Confidence intervals, paired comparisons of runs and their power, clustered by image or video.

All take the `UnitScore`s of runs. `bootstrap.intervals` gives a run's intervals, `paired.compare`
the difference of two runs.
"""

"""The index of runs: a database of records and numbers, which run folders can always rebuild."""

FILE = "runs.sqlite"
"""Name of this machine's index, in the cache."""

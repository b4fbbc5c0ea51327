"""Training sets: readers that yield the ground truth a trainer needs.

Each is a task like any other, so that a trainer takes it through `--train-tasks` and `harness data
check` looks at its files. Its scores are never a benchmark's numbers.
"""

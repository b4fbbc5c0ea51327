"""Training sets: readers that yield the ground truth a trainer needs, and builders of such sets.

Each is a task like any other, so that a trainer takes it through `--train-tasks` and `harness data
check` looks at its files. What is scored with it is never a benchmark's number.
"""

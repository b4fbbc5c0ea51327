"""One sample of a run, or the rollouts of a training, in words and pictures."""

"""Training with Video-R1's rewards: answers, and a bonus where the order of frames helps."""

"""What stands out: a reasoner without weights that never reads the question."""

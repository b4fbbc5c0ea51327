"""The supervised baseline of Video-STR: the same samples, answers alone."""

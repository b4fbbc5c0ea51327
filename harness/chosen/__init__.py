"""Which model a SPEC, a preset or a checkpoint stands for, and with which settings."""

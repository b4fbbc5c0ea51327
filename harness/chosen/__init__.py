"""Models and settings that a SPEC, a preset or a checkpoint stands for."""

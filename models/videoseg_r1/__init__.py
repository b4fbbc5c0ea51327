"""VideoSeg-R1: its sampler of frames, prompts, grammar and adapter."""

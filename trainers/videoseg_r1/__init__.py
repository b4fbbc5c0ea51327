"""VideoSeg-R1: GRPO whose reward pays for negative points and for reasoning within a budget."""

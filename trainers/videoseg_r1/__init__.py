"""VideoSeg-R1: GRPO that rewards negative points, and reasoning within a budget."""

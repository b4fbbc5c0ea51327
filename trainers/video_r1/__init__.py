"""Video-R1's training: GRPO with rewards for answers, and a bonus if the order of frames helps."""

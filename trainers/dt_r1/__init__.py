"""DT-R1: GRPO with rewards of format and accuracy, over rollouts with a digital twin."""

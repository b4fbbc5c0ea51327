"""Video-STR's training: GRPO with rewards for answers, and for graphs of objects in space."""

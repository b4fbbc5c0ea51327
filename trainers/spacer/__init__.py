"""SpaceR's training: GRPO with rewards for answers, and for maps of objects on a grid."""

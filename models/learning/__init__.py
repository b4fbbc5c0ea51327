"""Pieces that trainers and test-time methods share: the loss of GRPO, and which weights train."""

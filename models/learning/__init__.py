"""Pieces of learning that trainers and test-time methods share: losses, and what is trained."""

"""Training with Video-STR's rewards: answers, and graphs of objects in space."""

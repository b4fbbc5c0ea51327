"""Training with SpaceR's rewards: answers, and maps on a grid."""

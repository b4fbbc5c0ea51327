"""SR-91k: SpaceR's questions of space about videos of rooms."""

"""ViewSpatial-Bench: places and orientations from the camera's and from a person's view."""

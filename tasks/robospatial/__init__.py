"""RoboSpatial-Home: point at free space, and answer yes or no about places of objects."""

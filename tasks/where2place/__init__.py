"""Where2Place: point at the free space that a spatial relation describes."""

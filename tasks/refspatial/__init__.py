"""RefSpatial-Bench: point at an object or at free space that several relations describe."""

"""EmbSpatial-Bench: spatial relations in embodied scenes."""

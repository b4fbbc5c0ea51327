"""MMSI-Bench: spatial questions that need several images together."""

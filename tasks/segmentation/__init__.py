"""Shared code of benchmarks of masks in images: phrases with their masks to samples and checks."""

"""Shared code of benchmarks of expressions about videos: frames, tracks, scores, submissions."""

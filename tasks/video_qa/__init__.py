"""Subtitles of the general video benchmarks, and the writers of their fixtures."""

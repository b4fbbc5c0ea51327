"""Shared code of the general video benchmarks: options, subtitles, and their files."""

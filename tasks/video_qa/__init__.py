"""What the general video benchmarks share: options, subtitles, and how they are written."""

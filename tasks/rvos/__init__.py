"""What benchmarks of expressions about videos share: frames, tracks, scores, submissions."""

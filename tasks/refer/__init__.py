"""What the benchmarks of referring expressions share: their files, their truth, their scoring."""

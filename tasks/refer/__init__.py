"""Shared code of the benchmarks of referring expressions: files, ground truth, scoring."""

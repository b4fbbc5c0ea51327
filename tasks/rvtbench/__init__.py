"""Shared code of RVTBench's four tasks and JiTBench: mapped records, levels, categories."""

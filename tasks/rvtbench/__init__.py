"""What RVTBench's four tasks and JiTBench share: records read by a mapping, levels, categories."""

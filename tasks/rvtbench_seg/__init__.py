"""RVTBench, segmentation: masks for questions of four levels and three categories."""

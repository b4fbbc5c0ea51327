"""RVTBench, grounding: boxes for questions of four levels and three categories."""

"""RVTBench, VQA: questions of four levels and three categories, answered in words."""

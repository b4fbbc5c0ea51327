"""RVTBench, summary: what a video shows with regard to a question, in words."""

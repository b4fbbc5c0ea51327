"""RVTBench, summary: a summary of a video with regard to a question, in words."""

"""Write sample data: video scenes as records of RVTBench's VQA task."""

from harness.tasks.rvtbench.writing import records_writer

write = records_writer("vqa")

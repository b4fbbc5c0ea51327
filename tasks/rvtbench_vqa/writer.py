"""Write video scenes as records of RVTBench: vqa."""

from harness.tasks.rvtbench.writing import records_writer

write = records_writer("vqa")

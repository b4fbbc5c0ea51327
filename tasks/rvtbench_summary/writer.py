"""Write video scenes as records of RVTBench: summary."""

from harness.tasks.rvtbench.writing import records_writer

write = records_writer("summary")

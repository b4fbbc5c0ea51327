"""Write sample data: video scenes as records of RVTBench's grounding task."""

from harness.tasks.rvtbench.writing import records_writer

write = records_writer("grounding")

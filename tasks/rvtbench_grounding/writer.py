"""Write video scenes as records of RVTBench: grounding."""

from harness.tasks.rvtbench.writing import records_writer

write = records_writer("grounding")

"""Write video scenes as records of RVTBench: segmentation."""

from harness.tasks.rvtbench.writing import records_writer

write = records_writer("segmentation")

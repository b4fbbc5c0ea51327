"""Write sample data: video scenes as records of JiTBench."""

from harness.tasks.rvtbench.writing import records_writer

write = records_writer(
    "segmentation", benchmark="jitbench", levels=3, annotations="annotations.jsonl"
)

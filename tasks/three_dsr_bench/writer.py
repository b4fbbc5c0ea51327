"""Write sample data: generated questions in the table of 3DSRBench."""

from harness.tasks.three_dsr_bench.task import FIELDS, KINDS
from harness.tasks.video_qa.benchmarks import question_writer

write = question_writer(
    "three_dsr_bench/3dsr/test-00000-of-00001.parquet",
    FIELDS,
    index=lambda example: f"SHAPE{example.number:03d}",
    image=lambda example: example.image,
    category=lambda example: f"{KINDS[example.number % len(KINDS)]}_{example.question.kind}",
)

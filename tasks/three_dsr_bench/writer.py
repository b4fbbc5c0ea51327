"""Questions of the generated world in the table of 3DSRBench."""

from harness.tasks.three_dsr_bench.task import FIELDS, KINDS
from harness.tasks.video_qa.benchmarks import question_writer

write = question_writer(
    "three_dsr_bench/3dsr/test-00000-of-00001.parquet",
    FIELDS,
    index=lambda one: f"SHAPE{one.number:03d}",
    image=lambda one: one.image,
    category=lambda one: f"{KINDS[one.number % len(KINDS)]}_{one.question.kind}",
)

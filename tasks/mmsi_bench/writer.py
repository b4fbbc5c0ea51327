"""Write sample data: generated questions in MMSI-Bench's table, whose images are bytes alone."""

from harness.tasks.mmsi_bench.task import FIELDS
from harness.tasks.video_qa.benchmarks import images, question_writer

write = question_writer(
    "mmsi_bench/MMSI_Bench.parquet",
    FIELDS,
    id=lambda example: example.number,
    question_type="MSR",
    images=lambda example: [image["bytes"] for image in images(example.scene)],
)

"""Write sample data: generated questions in FlagEval's table of EmbSpatial-Bench."""

from harness.tasks.embspatial.task import FIELDS
from harness.tasks.video_qa.benchmarks import question_writer

write = question_writer(
    "embspatial/data/test-00000-of-00001.parquet",
    FIELDS,
    question_id=lambda example: f"shapes_{example.number}",
    image=lambda example: example.image,
    relation=lambda example: example.question.kind,
    data_source=lambda example: ("ai2thor", "mp3d", "scannet")[example.number % 3],
)

"""Questions of the generated world in FlagEval's table of EmbSpatial-Bench."""

from harness.tasks.embspatial.task import FIELDS
from harness.tasks.video_qa.benchmarks import question_writer

write = question_writer(
    "embspatial/data/test-00000-of-00001.parquet",
    FIELDS,
    question_id=lambda one: f"shapes_{one.number}",
    image=lambda one: one.image,
    relation=lambda one: one.question.kind,
    data_source=lambda one: ("ai2thor", "mp3d", "scannet")[one.number % 3],
)

"""Write sample data: generated questions in ViewSpatial-Bench's table."""

from harness.tasks.qa.options import lettered
from harness.tasks.video_qa.benchmarks import question_writer
from harness.tasks.view_spatial.task import FIELDS

write = question_writer(
    "view_spatial/data/test-00000-of-00001.parquet",
    FIELDS,
    choices=lambda example: "\n".join(lettered(example.question.options)),
    question_type="Camera perspective - Relative Direction",
)

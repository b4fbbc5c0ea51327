"""Write sample data: generated videos in the layout of Perception Test's questions."""

from harness.tasks.perception_test.task import FIELDS
from harness.tasks.video_qa.benchmarks import question_writer

write = question_writer(
    "perception_test/mc_question_val/validation-00000-of-00001.parquet",
    FIELDS,
    videos="perception_test/videos",
    answer_id=lambda example: str(example.place),
)

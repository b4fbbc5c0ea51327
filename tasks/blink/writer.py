"""Write sample data: generated questions as the table of one of BLINK's tasks, with two images."""

from harness.tasks.blink.task import FIELDS
from harness.tasks.video_qa.benchmarks import in_text, question_writer

TASK = "Multi-view_Reasoning"

write = question_writer(
    f"blink/{TASK}/val-00000-of-00001.parquet",
    FIELDS,
    idx=lambda example: f"val_{TASK}_{example.number + 1}",
    sub_task=TASK,
    answer=lambda example: f"({example.question.letter})",
    prompt=lambda example: in_text(example.question),
)

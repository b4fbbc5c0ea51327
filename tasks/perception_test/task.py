"""Perception Test, validation: questions with three options on short videos.

A row of `mc_question_val/validation-*.parquet` belongs to the video `videos/<video_name>.mp4`;
`answer_id` is the index of the right option:

    {"video_name": "video_10", "question": "…", "options": ["…", "…", "…"], "answer_id": "1"}
"""

from pathlib import Path
from typing import Literal

from harness.metrics.letter_readers import perception_test_choice
from harness.spec import Spec
from harness.task import Task
from harness.tasks.qa.letters import Reading, any_letters, letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import Videos, table_task

FIELDS = Fields(
    id="{video_name}/{_index}",
    media="{video_name}.mp4",
    options="options",
    answer="answer_id",
    form="place",
)
PROTOCOLS = letter_protocols(
    "perceptiontest",
    lmms=Reading(
        any_letters(perception_test_choice), "lmms-eval: the first capital A to D that stands alone"
    ),
)


def perception_test(
    data: Path,
    *,
    split: Literal["validation"] = "validation",
    frames: int | Spec | None = None,
    protocol: str = "perceptiontest/lmms",
) -> Task:
    """One sample per question; `protocol` is `perceptiontest/lmms` or `perceptiontest/strict`."""
    root, files = data / "perception_test", f"mc_question_val/{split}-*.parquet"
    videos = Videos((root / "videos",), frames)
    return table_task(
        "perception_test", root, files, FIELDS, PROTOCOLS, split, protocol, videos=videos, version=2
    )

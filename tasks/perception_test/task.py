"""Perception Test, validation: questions with three options on short videos.

A row of `mc_question_val/validation-*.parquet`, and the video `videos/<video_name>.mp4`:

    {"video_name": "video_10", "question": "…", "options": ["…", "…", "…"], "answer_id": "1"}
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from harness.metrics.letter_readers import perception_test_choice
from harness.spec import Spec
from harness.task import Task, choose
from harness.tasks.qa.images import parts
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.questions import Fields, Question, numeric, read_records
from harness.tasks.qa.task import QuestionFormat, Videos, question_task

FIX = "`harness list tasks perception_test` says where the data is had."
FIELDS = Fields(
    id="{video_name}/{_index}",
    media="{video_name}.mp4",
    options="options",
    answer="answer_id",
    form="place",
)


def perception_test(
    data: Path,
    *,
    split: Literal["validation"] = "validation",
    frames: int | Spec | None = None,
    protocol: str = "perceptiontest/official",
) -> Task:
    """One sample a question; `protocol` is `perceptiontest/official` or `perceptiontest/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "perception_test"
    files = parts(place, f"mc_question_val/{split}-*.parquet", fix=FIX)
    videos = Videos((place / "videos",), frames)
    layout = QuestionFormat(
        files=files,
        read=partial(read_records, files, FIELDS.columns, _question),
        open=videos.open,
        problems=videos.problems,
    )
    arguments = {"frames": str(videos.selection)}
    return question_task(
        layout, "perception_test", protocol=scoring, split=split, arguments=arguments
    )


def _question(row: Mapping[str, object], where: str) -> Question:
    place = numeric(row["answer_id"], f"{where}: 'answer_id'")
    return FIELDS.read_record({**row, "answer_id": int(place)}, where)


PROTOCOLS = letter_protocols(
    "perceptiontest",
    perception_test_choice,
    official="lmms-eval: the first capital A to D that stands alone",
)

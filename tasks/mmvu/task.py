"""MMVU, validation: expert questions on videos of 27 subjects, with five options or without.

A record of `validation.json`, and the video `videos/<subject>/<name>.mp4` that its address names:

    {"id": "validation_1", "video": "https://huggingface.co/…/videos/Chemistry/0.mp4",
     "question_type": "multiple-choice", "question": "How many grams …?",
     "choices": {"A": "10.0", "B": "5.0", "C": "12.0", "D": "15.0", "E": "20.0"}, "answer": "A"}

A question without options, `open-ended`, has "" for every choice.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.layout import file, folder
from harness.spec import Spec
from harness.task import Task, choose
from harness.tasks.mmvu.scoring import PROTOCOLS
from harness.tasks.qa.questions import Fields, Question, read_records
from harness.tasks.qa.tables import text
from harness.tasks.qa.task import QuestionFormat, Videos, question_task
from harness.types import AnswerForm

__all__ = ["PROTOCOLS", "mmvu"]

FIX = "`harness list tasks mmvu` says where the data is had."
CHOICE, OPEN = "multiple-choice", "open-ended"
FIELDS = Fields(
    id="{id}",
    media="{video}",
    options="choices",
    categories={"subject": "subject", "type": "question_type"},
    allowed_values={"question_type": (CHOICE, OPEN)},
)
COLUMNS = {name: what for name, what in FIELDS.columns.items() if name != "subject"}


def mmvu(
    data: Path,
    *,
    split: Literal["validation"] = "validation",
    frames: int | Spec | None = None,
    protocol: str = "mmvu/rules",
) -> Task:
    """One sample a question; `protocol` is `mmvu/rules`, `mmvu/judged` or `mmvu/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "mmvu", fix=FIX)
    files = (file(place / f"{split}.json", fix=FIX),)
    videos = Videos((place / "videos",), frames)
    layout = QuestionFormat(
        files=files,
        read=partial(read_records, files, COLUMNS, _question),
        open=videos.open,
        problems=videos.problems,
    )
    return question_task(
        layout,
        "mmvu",
        protocol=scoring,
        split=split,
        forms=(AnswerForm.CHOICE, AnswerForm.TEXT),
        arguments={"frames": str(videos.selection)},
    )


def _question(row: Mapping[str, object], where: str) -> Question:
    _, _, video = text(row, "video", where).rpartition("/videos/")
    choices, row = row["choices"], {**row, "video": video, "subject": video.partition("/")[0]}
    if row["question_type"] == OPEN:
        return replace(FIELDS, options="", form="text").read_record(row, where)
    if not isinstance(choices, dict) or "".join(choices) != "ABCDE":
        raise DataError(f"{where}: 'choices'", expected="A to E", found=repr(choices)[:60])
    return FIELDS.read_record({**row, "choices": list(choices.values())}, where)

"""MMVU, validation: expert questions on videos of 27 subjects, with five options or without.

A record of `validation.json`; its address names the video `videos/<subject>/<name>.mp4`:

    {"id": "validation_1", "video": "https://huggingface.co/…/videos/Chemistry/0.mp4",
     "question_type": "multiple-choice", "question": "How many grams …?",
     "choices": {"A": "10.0", "B": "5.0", "C": "12.0", "D": "15.0", "E": "20.0"}, "answer": "A"}

A question without options, `open-ended`, has "" for every choice.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.spec import Spec
from harness.task import Task
from harness.tasks.mmvu.scoring import PROTOCOLS
from harness.tasks.qa.questions import Fields, Question
from harness.tasks.qa.tables import text
from harness.tasks.qa.task import Videos, table_task
from harness.types import AnswerForm

FIELDS = Fields(
    id="{id}",
    media="{video}",
    options="choices",
    otherwise="text",
    categories={"subject": "subject", "type": "question_type"},
    allowed_values={"question_type": ("multiple-choice", "open-ended")},
)
# The subject is not a column of the file: `_question` takes it from the video's address.
COLUMNS = {name: content for name, content in FIELDS.columns.items() if name != "subject"}


def mmvu(
    data: Path,
    *,
    split: Literal["validation"] = "validation",
    frames: int | Spec | None = None,
    protocol: str = "mmvu/rules",
) -> Task:
    """One sample per question; `protocol` is `mmvu/rules`, `mmvu/judged` or `mmvu/strict`."""
    root = data / "mmvu"
    return table_task(
        "mmvu",
        root,
        f"{split}.json",
        COLUMNS,
        PROTOCOLS,
        split,
        protocol,
        read=_question,
        forms=(AnswerForm.CHOICE, AnswerForm.TEXT),
        videos=Videos((root / "videos",), frames),
        version=2,
    )


def _question(row: Mapping[str, object], where: str, root: Path) -> Question:
    """Return the question of a record; video and subject come from the video's address."""
    _, _, video = text(row, "video", where).rpartition("/videos/")
    choices = row["choices"]
    if row["question_type"] == "open-ended":
        choices = {}
    elif not isinstance(choices, dict) or "".join(choices) != "ABCDE":
        raise DataError(f"{where}: 'choices'", expected="A to E", found=repr(choices)[:60])
    subject, options = video.partition("/")[0], [*choices.values()]
    parsed = {"video": video, "subject": subject, "choices": options}
    return FIELDS.read_record({**row, **parsed}, where)

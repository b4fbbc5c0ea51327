"""A small benchmark of questions about films: options in a list, the right one by its place, films
as files or folders of frames.
"""

from pathlib import Path
from typing import Literal

from harness.spec import Spec
from harness.task import Task
from harness.tasks.qa.letters import Reading, letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import Videos, table_task

FIELDS = Fields(
    id="{film}/{number}",
    media="{film}.mp4",
    question="asked",
    options="choices",
    answer="right",
    form="place",
    categories={"kind": "kind"},
    allowed_values={"kind": ("action", "place")},
)


def first_letter(response: str, letters: str) -> str | None:
    """Return the first character of a response, as the benchmark's own script reads it."""
    return response.strip()[:1] or None


PROTOCOLS = letter_protocols(
    "film_quiz", official=Reading(first_letter, "score.py: the first character")
)


def film_quiz(
    data: Path,
    *,
    split: Literal["test"] = "test",
    frames: int | Spec | None = None,
    protocol: str = "film_quiz/official",
) -> Task:
    """Return the task: one sample for each question; samples of one film are a group."""
    root = data / "film_quiz"
    films = Videos((root / "films",), frames)
    return table_task(
        "film_quiz",
        root,
        "questions.json",
        FIELDS,
        PROTOCOLS,
        split,
        protocol,
        videos=films,
        fix="See https://films.invalid.",
    )

"""A benchmark of questions on films, in as little as one takes: options in a list, the right one
by its place, films as files or folders of frames.
"""

from functools import partial
from pathlib import Path
from typing import Literal

from harness.layout import file
from harness.spec import Spec
from harness.task import Task, choose
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.questions import Fields
from harness.tasks.qa.task import QuestionFormat, Videos, question_task

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


def first_letter(response: str) -> str | None:
    """How the benchmark's own script reads a response: its first character."""
    return response.strip()[:1] or None


def film_quiz(
    data: Path,
    *,
    split: Literal["test"] = "test",
    frames: int | Spec | None = None,
    protocol: str = "film_quiz/official",
) -> Task:
    """One sample a question; statistics cluster by film."""
    questions = file(data / "film_quiz" / "questions.json", fix="See https://films.invalid.")
    films = Videos((questions.parent / "films",), frames)
    requested = QuestionFormat(
        files=(questions,),
        read=partial(FIELDS.questions, (questions,)),
        open=films.open,
        problems=films.problems,
    )
    return question_task(
        requested,
        "film_quiz",
        protocol=choose("protocol", PROTOCOLS, protocol),
        split=split,
        arguments={"frames": str(films.selection)},
    )


PROTOCOLS = letter_protocols("film_quiz", first_letter, official="score.py: the first character")

"""STI-Bench: eight tasks of space and time in video, with up to five options each.

A row of `qa.parquet`, which names its video and an interval of it in seconds:

    {"Video": "scene0011_00.mp4", "ID": 3, "Source": "ScanNet", "Task": "Dimensional Measurement",
     "Question": "What is the height of the chair?", "time_start": 0.0, "time_end": 12.0,
     "Candidates": {"A": "0.4 m", "B": "0.8 m", …}, "Answer": "B"}
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError, UsageError
from harness.layout import file, folder
from harness.metrics.choices import sti_bench_choice
from harness.scores import Metric
from harness.spec import Spec
from harness.task import Ceiling, Protocol, Task
from harness.tasks.qa.answer_text import has_number
from harness.tasks.qa.letters import Reading, any_letters, letter_protocols
from harness.tasks.qa.questions import Question
from harness.tasks.qa.task import QuestionFormat, Videos, question_task, wording_of
from harness.tasks.spatial.numeric import score_numeric, scoring_of_form
from harness.tasks.sti_bench.records import in_numbers, read_questions
from harness.types import AnswerForm

FIX = "`harness list tasks sti_bench` prints the source of the data."
VIDEO_FOLDERS = ("video", "videos")
"""Folders of the unpacked `video.zip`: the official script's default, and the README's."""

Form = Literal["choice", "numeric"]
Prompt = Literal["question", "official"]
VERSIONS: Mapping[Form, int] = {"choice": 3, "numeric": 3}
"""Versions of the scores. 2: a choice fails if the protocol cannot read it; a question for a number
says so in its text. 3: numbers and letters are read in more spellings, or not at all."""


def sti_bench(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "sti/official",
    form: Form = "choice",
    prompt: Prompt = "question",
    frames: int | Spec | None = None,
) -> Task:
    """One sample per question; statistics cluster by video.

    Args:
        protocol: `sti/official` or `sti/strict`; with `form=numeric` always `sti/numeric`.
        form: `choice`, or `numeric`: only questions whose options are numbers of one unit, asked
            without the options.
        prompt: `question`: the interval and the question, options apart; `official`: all the text
            of the official script, which contains the options.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
    """
    scoring = scoring_of_form("sti_bench", PROTOCOLS, form, protocol)
    if form == "numeric" and prompt == "official":
        raise UsageError(
            "sti_bench(form=numeric)",
            expected="prompt=question",
            found="prompt=official, which lists options",
        )
    root = folder(data / "sti_bench", fix=FIX)
    path = file(root / "qa.parquet", fix=FIX)
    videos = Videos(tuple(root / name for name in VIDEO_FOLDERS), frames)
    question_format = QuestionFormat(
        files=(path,),
        read=partial(_questions_of_form, path, form),
        open=videos.open,
        problems=videos.problems,
        separate_options=prompt == "question",
        text=wording_of("harness.tasks.sti_bench", "numeric" if form == "numeric" else prompt),
    )
    return question_task(
        question_format,
        "sti_bench",
        protocol=scoring,
        split=split,
        version=VERSIONS[form],
        forms=(AnswerForm.CHOICE if form == "choice" else AnswerForm.NUMBER,),
        arguments={"form": form, "prompt": prompt, "frames": str(videos.selection)},
    )


def _questions_of_form(path: Path, form: Form) -> Iterator[Question | DataError]:
    """Yield the questions in the selected form, and the errors of rows that cannot be read."""
    for question in read_questions(path):
        if form == "choice" or isinstance(question, DataError):
            yield question
        elif (numeric := in_numbers(question)) is not None:
            yield numeric


PROTOCOLS = {
    **letter_protocols(
        "sti",
        official=Reading(
            any_letters(sti_bench_choice),
            "STI-Bench's opensource_test.py; a question without a video or an answer is wrong",
        ),
    ),
    "sti/numeric": Protocol(
        name="sti/numeric",
        score=score_numeric,
        reads=has_number,
        metrics=(
            Metric("MRA", about="mean relative accuracy"),
            Metric("relative accuracy", about="max(0, 1 - |p - y| / |y|)"),
        ),
        headline="MRA",
        ceiling=Ceiling(value=1.0),
        about="ours, after Video-STR's Table 4: questions whose options are numbers of one unit",
    ),
}

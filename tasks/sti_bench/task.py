"""STI-Bench: eight tasks of space and time in video, with up to five options each.

A row of `qa.parquet`, and the video that it names:

    {"Video": "scene0011_00.mp4", "ID": 3, "Source": "ScanNet", "Task": "Dimensional Measurement",
     "Question": "What is the height of the chair?", "time_start": 0.0, "time_end": 12.0,
     "Candidates": {"A": "0.4 m", "B": "0.8 m", …}, "Answer": "B"}
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError, UsageError
from harness.layout import file, folder
from harness.media import Media
from harness.metrics.choices import FIVE_LETTERS, sti_bench_choice
from harness.metrics.numeric import mean_relative_accuracy, relative_accuracy
from harness.scores import Mean, Metric, Scores
from harness.spec import Spec
from harness.task import Ceiling, Protocol, Task, choose
from harness.tasks.qa.answer_text import answer_text, has_number, read_by
from harness.tasks.qa.options import stated_letter
from harness.tasks.qa.prompts import templates
from harness.tasks.qa.questions import Question
from harness.tasks.qa.task import QuestionFormat, Videos, question_task
from harness.tasks.sti_bench.records import in_numbers, read_questions
from harness.types import AnswerForm, Prediction, Sample, Target

FIX = "`harness list tasks sti_bench` says where the data is had."
PLACES = ("video", "videos")
"""Folders that `video.zip` is unpacked to: the script's default, and the README's."""

Form = Literal["choice", "numeric"]
Prompt = Literal["question", "official"]
VERSIONS: Mapping[Form, int] = {"choice": 2, "numeric": 2}
"""Versions of the scores. 2: a choice fails if the protocol cannot read it; a question for a number
says so in its text."""


def sti_bench(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "sti/official",
    form: Form = "choice",
    prompt: Prompt = "question",
    frames: int | Spec | None = None,
) -> Task:
    """One sample a question; statistics cluster by video.

    Args:
        data: The folder that holds one folder a benchmark.
        split: There is one.
        protocol: `sti/official` or `sti/strict`; with `form=numeric` always `sti/numeric`.
        form: `choice`, or `numeric`: only questions whose options are numbers of one unit, asked
            without the options.
        prompt: `question`: the stretch of time and the question, options apart; `official`: all
            the text of the official script, options in it.
        frames: Which frames of the video there are: a rule of `harness.frames`, such as 30 or
            `fps(rate=2,max_frames=64)`; without, all of them, and a model shows what its own
            rule says.
    """
    if form == "numeric" and protocol == "sti/official":
        protocol = "sti/numeric"
    scoring = choose("protocol", PROTOCOLS, protocol)
    if (form == "numeric") != (protocol == "sti/numeric"):
        raise UsageError(
            f"sti_bench(form={form})",
            found=f"protocol={protocol}",
            expected="form=numeric exactly with protocol=sti/numeric",
        )
    if form == "numeric" and prompt == "official":
        raise UsageError(
            "sti_bench(form=numeric)",
            expected="prompt=question",
            found="prompt=official, which lists options",
        )
    place = folder(data / "sti_bench", fix=FIX)
    path = file(place / "qa.parquet", fix=FIX)
    videos = Videos(tuple(place / name for name in PLACES), frames)
    layout = QuestionFormat(
        files=(path,),
        read=partial(_questions_of_form, path, form),
        open=videos.open,
        problems=videos.problems,
        apart=prompt == "question",
        text=_numeric_text if form == "numeric" else partial(_choice_text, prompt),
    )
    return question_task(
        layout,
        "sti_bench",
        protocol=scoring,
        split=split,
        version=VERSIONS[form],
        forms=(AnswerForm.CHOICE if form == "choice" else AnswerForm.NUMBER,),
        arguments={"form": form, "prompt": prompt, "frames": str(videos.selection)},
    )


def _questions_of_form(path: Path, form: Form) -> Iterator[Question | DataError]:
    """Yield the questions in the selected form, and the errors of rows that cannot be read."""
    for one in read_questions(path):
        found = one if form == "choice" or isinstance(one, DataError) else in_numbers(one)
        if found is not None:
            yield found


def _choice_text(prompt: Prompt, question: Question, media: Media) -> str:
    words, row = templates("harness.tasks.sti_bench"), question.row
    options = "\n".join(
        words["option"].format(letter=letter, text=text)
        for letter, text in zip(FIVE_LETTERS, question.options, strict=False)
    )
    return words[prompt].format(
        start=row["time_start"], end=row["time_end"], question=question.text, options=options
    )


def _numeric_text(question: Question, media: Media) -> str:
    row = question.row
    return templates("harness.tasks.sti_bench")["numeric"].format(
        start=row["time_start"], end=row["time_end"], question=question.text, unit=row["unit"]
    )


def _single_answer(
    unit: Sequence[Sample], predictions: Sequence[Prediction]
) -> tuple[Target, Prediction]:
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None, "the ground truth is public"
    return sample.target, prediction


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """`opensource_test.py`: six patterns in turn, else the last character; an empty answer is
    wrong.
    """
    target, prediction = _single_answer(unit, predictions)
    letter = sti_bench_choice(answer_text(prediction) or "")
    return {"accuracy": Mean(float(letter == target.answer.choice))}


def score_strict(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Right only if the response states one letter, and that is the right one."""
    target, prediction = _single_answer(unit, predictions)
    letter = stated_letter(unit[0], answer_text(prediction) or "")
    return {"accuracy": Mean(float(letter == target.answer.choice))}


def score_numeric(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """MRA and relative accuracy of the number that the model's own parser read; none scores 0."""
    target, prediction = _single_answer(unit, predictions)
    ground_truth = target.answer.number
    assert ground_truth is not None, "numeric samples have a number"
    predicted = None if prediction.answer is None else prediction.answer.number
    return {
        "MRA": Mean(mean_relative_accuracy(predicted, ground_truth)),
        "relative accuracy": Mean(relative_accuracy(predicted, ground_truth)),
    }


ACCURACY = (Metric("accuracy", about="share of questions with the right letter"),)
PROTOCOLS = {
    "sti/official": Protocol(
        name="sti/official",
        score=score_official,
        reads=read_by(lambda _, text: sti_bench_choice(text)),
        metrics=ACCURACY,
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="STI-Bench's opensource_test.py; a question without a video or an answer is wrong",
    ),
    "sti/strict": Protocol(
        name="sti/strict",
        score=score_strict,
        reads=read_by(stated_letter),
        metrics=ACCURACY,
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="only a letter that the response states counts",
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

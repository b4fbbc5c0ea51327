"""STI-Bench: eight tasks of space and time in video, with up to five options each.

A row of `qa.parquet`, and the video that it names:

    {"Video": "scene0011_00.mp4", "ID": 3, "Source": "ScanNet", "Task": "Dimensional Measurement",
     "Question": "What is the height of the chair?", "time_start": 0.0, "time_end": 12.0,
     "Candidates": {"A": "0.4 m", "B": "0.8 m", …}, "Answer": "B"}
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError, UsageError
from harness.layout import folder
from harness.metrics.choices import sti_bench_choice, strict_choice
from harness.metrics.numeric import mean_relative_accuracy, relative_accuracy
from harness.scores import Mean, Metric, Scores
from harness.spec import Spec
from harness.task import Ceiling, Problem, Protocol, Task, choose
from harness.tasks.spatial.prompts import templates
from harness.tasks.spatial.said import said
from harness.tasks.spatial.videos import Shown, fault, video_or_lost
from harness.tasks.sti_bench.records import KIND_OF_TASK, Record, read
from harness.types import Answer, AnswerForm, Prediction, Query, Sample, Target, query_id

FIX = "`harness list tasks sti_bench` says where the data is had."
PLACES = ("video", "videos")
"""Where `video.zip` is unpacked to: the script's default, and what the README says."""

Form = Literal["choice", "numeric"]
Prompt = Literal["question", "official"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the questions and the videos lie, and how they are asked."""

    path: Path
    videos: tuple[Path, ...]
    form: Form
    prompt: Prompt
    shown: Shown


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
            `fps(rate=2,most=64)`; without, all of them, and a model shows what its own rule says.
    """
    if form == "numeric" and protocol == "sti/official":
        protocol = "sti/numeric"
    scoring = choose("protocol", PROTOCOLS, protocol)
    if (form == "numeric") != (protocol == "sti/numeric"):
        raise UsageError(f"sti_bench(form={form})", found=f"protocol={protocol}",
                         expected="form=numeric exactly with protocol=sti/numeric")  # fmt: skip
    if form == "numeric" and prompt == "official":
        raise UsageError("sti_bench(form=numeric)", expected="prompt=question",
                         found="prompt=official, which lists options")  # fmt: skip
    place = folder(data / "sti_bench", fix=FIX)
    path = place / "qa.parquet"
    if not path.is_file():
        raise DataError(f"folder {place}", expected="qa.parquet", found="no such file", fix=FIX)
    source = Source(path, tuple(place / name for name in PLACES), form, prompt,
                    Shown(frames))  # fmt: skip
    return Task(
        name="sti_bench",
        version=1,
        split=split,
        forms=(AnswerForm.CHOICE,) if form == "choice" else (AnswerForm.NUMBER,),
        protocol=scoring,
        samples=partial(_samples, source),
        annotations=(path,),
        check=partial(_check, source),
        arguments={
            "split": split, "protocol": protocol, "form": form, "prompt": prompt,
            "frames": str(source.shown),
        },
    )  # fmt: skip


def _samples(source: Source) -> Iterator[Sample]:
    for record in read(source.path):
        if isinstance(record, DataError):
            raise record
        sample = _sample(record, source)
        if sample is not None:
            yield sample


def _sample(record: Record, source: Source) -> Sample | None:
    """The sample of a record; None if its form is not the one that is asked for."""
    quantity = record.quantity() if source.form == "numeric" else None
    if source.form == "numeric" and quantity is None:
        return None
    if quantity is None:
        text, answer = _choice_text(record, source.prompt), Answer(choice=record.answer)
        form = AnswerForm.CHOICE
    else:
        wording = templates("harness.tasks.sti_bench")["numeric"]
        text = wording.format(start=record.start, end=record.end, question=record.question,
                              unit=quantity[1])  # fmt: skip
        answer, form = Answer(number=quantity[0]), AnswerForm.NUMBER
    apart = source.form == "choice" and source.prompt == "question"
    return Sample(
        id=record.id,
        query=Query(
            id=query_id(record.id), text=text, forms=(form,),
            media=(video_or_lost(source.videos, record.video, source.shown.choose),),
            options=tuple(record.options.values()) if apart else (),
        ),
        target=Target(answer=answer, extra={"letters": "".join(record.options)}),
        group=record.video,
        categories={
            "task": record.task, "kind": KIND_OF_TASK[record.task], "scene": record.scene,
            **({"source": record.source} if record.source else {}),
        },
    )  # fmt: skip


def _choice_text(record: Record, prompt: Prompt) -> str:
    words = templates("harness.tasks.sti_bench")
    options = "\n".join(
        words["option"].format(letter=letter, text=text) for letter, text in record.options.items()
    )
    return words[prompt].format(
        start=record.start, end=record.end, question=record.question, options=options
    )


def _check(source: Source) -> Iterator[Problem]:
    looked_at: set[str] = set()
    try:
        for record in read(source.path):
            if isinstance(record, DataError):
                yield Problem(str(source.path), str(record))
            elif record.video not in looked_at:
                looked_at.add(record.video)
                if wrong := fault(source.videos, record.video):
                    yield Problem(record.video, wrong)
    except DataError as error:
        yield Problem(str(source.path), str(error))


def _one(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> tuple[Target, Prediction]:
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None, "the truth is public"
    return sample.target, prediction


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """`opensource_test.py`: six forms in turn, else the last character; nothing said is wrong."""
    target, prediction = _one(unit, predictions)
    letter = sti_bench_choice(said(prediction) or "")
    return {"accuracy": Mean(float(letter == target.answer.choice))}


def score_strict(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Right only if the reply states one letter, and that is the right one."""
    target, prediction = _one(unit, predictions)
    letter = strict_choice(said(prediction) or "", letters=target.extra["letters"])
    return {"accuracy": Mean(float(letter == target.answer.choice))}


def score_numeric(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """MRA and relative accuracy of the number that the model's own parser read; none scores 0."""
    target, prediction = _one(unit, predictions)
    truth = target.answer.number
    assert truth is not None, "numeric samples have a number"
    told = None if prediction.answer is None else prediction.answer.number
    return {
        "MRA": Mean(mean_relative_accuracy(told, truth)),
        "relative accuracy": Mean(relative_accuracy(told, truth)),
    }


ACCURACY = (Metric("accuracy", about="share of questions with the right letter"),)
PROTOCOLS = {
    "sti/official": Protocol(
        name="sti/official",
        score=score_official,
        metrics=ACCURACY,
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="STI-Bench's opensource_test.py; a question without a video or an answer is wrong",
    ),
    "sti/strict": Protocol(
        name="sti/strict",
        score=score_strict,
        metrics=ACCURACY,
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="only a letter that the reply states counts",
    ),
    "sti/numeric": Protocol(
        name="sti/numeric",
        score=score_numeric,
        metrics=(
            Metric("MRA", about="mean relative accuracy"),
            Metric("relative accuracy", about="max(0, 1 - |p - y| / |y|)"),
        ),
        headline="MRA",
        ceiling=Ceiling(value=1.0),
        about="ours, after Video-STR's Table 4: questions whose options are numbers of one unit",
    ),
}

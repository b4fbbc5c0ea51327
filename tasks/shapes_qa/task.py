"""shapes_qa: questions about existence, place, size, number and events in a generated world.

One question per line of `questions.jsonl`; images lie beside it. A video is its frames, one per
second; a question without options asks for a number. `unit` is not read.

    {"id": "qa_00000_0", "frames": ["images/qa_00000.jpg"],
     "question": "What colour is the star?",
     "options": ["red", "blue", "white", "green"], "answer": "blue", "kind": "colour",
     "level": "easy", "family": "qa", "unit": ""}
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Literal, TypeAlias

from harness.errors import DataError
from harness.layout import field, folder
from harness.metrics.numeric import mean_relative_accuracy
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Problem, Protocol, Task, choose, single_answer
from harness.tasks.shapes import records
from harness.types import Answer, AnswerForm, Prediction, Query, Sample, Target, query_id

Part: TypeAlias = Literal["all", "choices", "numbers", "relations", "still", "video"]

SPATIAL_AND_TEMPORAL_KINDS = frozenset(
    {"relation", "relation4", "end_relation", "depth", "order", "order3", "leaves", "direction"}
)
"""Kinds of questions of the part `relations`: sides, depth, directions of motion, order in
time."""

FIX = "`harness list tasks shapes_qa` says how the data is made."
NUMBER_TOLERANCE_PERCENT = 10
"""Largest difference from the true number of a right one, in percent of the true one."""
MAX_ABSOLUTE = 1e15
"""Bound of true numbers: below it, float64 holds every whole number exactly."""
CATEGORIES = ("kind", "level", "family")
FORMS = {
    "choices": (AnswerForm.CHOICE,),
    "relations": (AnswerForm.CHOICE,),
    "numbers": (AnswerForm.NUMBER,),
}


@dataclass(frozen=True, slots=True)
class Record:
    """One line, checked."""

    id: str
    frames: tuple[Path, ...]
    question: str
    options: tuple[str, ...]
    answer: str | float
    categories: dict[str, str]

    def is_in_part(self, part: Part) -> bool:
        """Return True if the record belongs to this part."""
        video = len(self.frames) > 1
        return {
            "all": True,
            "choices": bool(self.options),
            "numbers": not self.options,
            "relations": bool(self.options)
            and self.categories["kind"] in SPATIAL_AND_TEMPORAL_KINDS,
            "still": not video,
            "video": video,
        }[part]


def shapes_qa(
    data: Path,
    *,
    split: Literal["train", "val", "test"] = "val",
    part: Part = "all",
    protocol: str = "qa/within_10",
) -> Task:
    """Task with one sample per question; statistics cluster by video or image.

    Args:
        split: Which scenes; those of `train` never show a combination that is held out.
        part: All questions; by form, those with options (`choices`) or for numbers; by kind, those
            of SPATIAL_AND_TEMPORAL_KINDS (`relations`); by media, those on one image (`still`) or
            on videos.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "shapes_qa" / split, fix=FIX)
    return Task(
        name="shapes_qa",
        version=1,
        split=split,
        forms=FORMS.get(part, (AnswerForm.CHOICE, AnswerForm.NUMBER)),
        protocol=scoring,
        samples=partial(_samples, place, part),
        annotations=(place / records.QUESTIONS,),
        check=partial(_check, place),
        arguments={"split": split, "part": part, "protocol": protocol},
    )


def _samples(place: Path, part: Part) -> Iterator[Sample]:
    for where, line in records.lines(place):
        record = _record(place, line, where)
        if record.is_in_part(part):
            yield _sample(record)


def _sample(record: Record) -> Sample:
    if isinstance(record.answer, str):
        form, answer = AnswerForm.CHOICE, Answer(choice=_letter(record))
    else:
        form, answer = AnswerForm.NUMBER, Answer(number=record.answer)
    return Sample(
        id=record.id,
        query=Query(
            id=query_id(record.id),
            text=record.question,
            media=(records.media(record.frames),),
            forms=(form,),
            options=record.options,
        ),
        target=Target(answer=answer),
        group="/".join(record.frames[0].parts[-3:]),  # questions on the same media
        categories=record.categories,
    )


def _letter(record: Record) -> str:
    return ascii_uppercase[record.options.index(str(record.answer))]


def _record(place: Path, line: bytes, where: str) -> Record:
    plain = records.parse(line, where)
    names = records.read_texts(plain, "frames", where)
    if not names:
        raise DataError(f"{where}: 'frames'", expected="at least one image", found="none")
    options = tuple(records.read_texts(plain, "options", where))
    return Record(
        id=plain["id"],
        frames=records.paths(place, names),
        question=records.read_text(plain, "question", where),
        options=options,
        answer=_answer(plain, options, where),
        categories=records.categories(plain, CATEGORIES, where),
    )


def _answer(plain: dict[str, object], options: tuple[str, ...], where: str) -> str | float:
    value = field(plain, "answer", (str, int, float), where)
    if options:
        if value not in options or len(options) > len(ascii_uppercase):
            raise DataError(
                f"{where}: 'answer'",
                expected=f"one of at most {len(ascii_uppercase)} options",
                found=repr(value)[:60],
            )
        return str(value)
    if isinstance(value, (bool, str)) or not abs(value) < MAX_ABSOLUTE:
        raise DataError(
            f"{where}: 'answer'",
            expected="a number where there are no options",
            found=repr(value)[:60],
        )
    return float(value)


def _check(place: Path) -> Iterator[Problem]:
    seen: set[tuple[Path, ...]] = set()

    def look(line: bytes, where: str) -> Iterator[Problem]:
        record = _record(place, line, where)
        if record.frames not in seen:
            seen.add(record.frames)
            yield from records.unreadable(record.frames)

    return records.check(place, look)


def number_of(answer: Answer | None) -> float | None:
    """Return an answer's number, or its count without one; None if neither is finite."""
    if answer is None:
        return None
    value = answer.number if answer.number is not None else answer.count
    return None if value is None or not math.isfinite(value) else float(value)


def is_within(predicted: float | None, ground_truth: float) -> bool:
    """Return True if a number differs by at most a tenth of the true one.

    >>> [is_within(predicted, 20) for predicted in (18, 22, 22.1, None)]
    [True, True, False, False]
    """
    if predicted is None:
        return False
    return 100 * abs(predicted - ground_truth) <= NUMBER_TOLERANCE_PERCENT * abs(ground_truth)


def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Accuracy over all; of choices alone; and of numbers, within a tenth and by MRA.

    A failure, and an answer that is no choice or no number, is wrong and counts.
    """
    _, target, prediction = single_answer(unit, predictions)
    ground_truth = target.answer
    if ground_truth.choice is not None:
        predicted = prediction.answer.choice if prediction.answer else None
        right = float(predicted is not None and predicted.strip().upper() == ground_truth.choice)
        return {"accuracy": Mean(right), "choice_accuracy": Mean(right)}
    assert ground_truth.number is not None
    number = number_of(prediction.answer)
    right = float(is_within(number, ground_truth.number))
    return {
        "accuracy": Mean(right),
        "number_within_10": Mean(right),
        "MRA": Mean(mean_relative_accuracy(number, ground_truth.number)),
    }


def is_readable(sample: Sample, prediction: Prediction) -> bool:
    """Return True if the letter or the number that the question asks for is there."""
    if sample.query.options:
        return prediction.answer is not None and prediction.answer.choice is not None
    return number_of(prediction.answer) is not None


PROTOCOLS = {
    "qa/within_10": Protocol(
        name="qa/within_10",
        score=score,
        reads=is_readable,
        metrics=(
            Metric(
                "accuracy",
                about="share of samples with the right option, or a number that is "
                "off by at most a tenth of the true one",
            ),
            Metric("choice_accuracy", about="share of questions with options answered right"),
            Metric("number_within_10", about="share of numbers off by at most a tenth"),
            Metric("MRA", about="mean relative accuracy of numbers, as VSI-Bench has it"),
        ),
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="our own: the right letter, or a number within a tenth",
    )
}

"""shapes_qa: questions about existence, place, size, number and events in generated scenes.

The task needs no download; `harness data make` writes its data.

`questions.jsonl` has one question per line; images lie beside it. A video is a list of frames, one
per second. A question without options asks for a number; `unit` is not read.

    {"id": "qa_00000_0", "frames": ["images/qa_00000.jpg"],
     "question": "What colour is the star?",
     "options": ["red", "blue", "white", "green"], "answer": "blue", "kind": "colour",
     "level": "easy", "family": "qa", "unit": ""}
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from harness.metrics.numeric import mean_relative_accuracy
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol, Task, single_answer
from harness.tasks.qa.questions import Fields, Question
from harness.tasks.qa.task import table_task
from harness.tasks.shapes import records
from harness.types import Answer, AnswerForm, Prediction, Sample

Part: TypeAlias = Literal["all", "choices", "numbers", "relations", "still", "video"]

RELATION_KINDS = frozenset(
    {"relation", "relation4", "end_relation", "depth", "order", "order3", "leaves", "direction"}
)
"""Kinds of questions in the part `relations`: left or right, depth, direction, order in time."""

NUMBER_TOLERANCE_PERCENT = 10
"""Largest difference of a right number from the true number, in percent of the latter."""
FORMS = {
    "choices": (AnswerForm.CHOICE,),
    "relations": (AnswerForm.CHOICE,),
    "numbers": (AnswerForm.NUMBER,),
}


FIELDS = Fields(
    id="{id}",
    images=("frames",),
    options="options",
    form="option",
    otherwise="number",
    categories={name: name for name in ("kind", "level", "family")},
)


def shapes_qa(
    data: Path,
    *,
    split: Literal["train", "val", "test"] = "val",
    part: Part = "all",
    protocol: str = "qa/within_10",
) -> Task:
    """Task with one sample per question; statistics cluster by video or image.

    Args:
        split: Split of the scenes; those of `train` never show a combination that is held out.
        part: All questions; by form, those with options (`choices`) or for numbers; by kind, those
            of RELATION_KINDS (`relations`); by media, those on one image (`still`) or
            on videos.
    """
    return table_task(
        "shapes_qa",
        data / "shapes_qa" / split,
        records.QUESTIONS_FILE,
        FIELDS,
        PROTOCOLS,
        split,
        protocol,
        read=partial(_question, part),
        forms=FORMS.get(part, (AnswerForm.CHOICE, AnswerForm.NUMBER)),
        open=records.open_media,
        problems=records.unreadable,
        arguments={"part": part},
        fix="`harness list tasks shapes_qa` says how the data is made.",
    )


def _question(part: Part, row: Mapping[str, object], where: str, root: Path) -> Question | None:
    """Return the question of a record; None if it is not in this part."""
    names = ("id", "question", *FIELDS.categories)
    records.check_texts(row, where, *names, lists=("frames", "options"))
    question = FIELDS.read_record(row, where, root)
    video = len(question.media) > 1
    is_in_part = {
        "all": True,
        "choices": bool(question.options),
        "numbers": not question.options,
        "relations": bool(question.options) and question.categories["kind"] in RELATION_KINDS,
        "still": not video,
        "video": video,
    }[part]
    return replace(question, group=records.group_of(question)) if is_in_part else None


def number_of(answer: Answer | None) -> float | None:
    """Return an answer's number, or else its count; None if neither is finite."""
    if answer is None:
        return None
    value = answer.number if answer.number is not None else answer.count
    return None if value is None or not math.isfinite(value) else float(value)


def is_within(predicted: float | None, ground_truth: float) -> bool:
    """Return True if a number differs from the true one by at most a tenth of it.

    >>> [is_within(predicted, 20) for predicted in (18, 22, 22.1, None)]
    [True, True, False, False]
    """
    if predicted is None:
        return False
    return 100 * abs(predicted - ground_truth) <= NUMBER_TOLERANCE_PERCENT * abs(ground_truth)


def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return the accuracy, as `accuracy` and for the form of the answer; for a number, also MRA.

    A failure is wrong and counts; so is an answer that is neither a choice nor a number.
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
    """Return True if the answer has the letter, or the number, that the question asks for."""
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

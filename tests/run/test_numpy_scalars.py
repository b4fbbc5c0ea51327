"""Scalars of NumPy and torch in what plugins return are Python's numbers in scores and records."""

import numpy as np
import pytest

import harness
from harness.media import pixels
from harness.model import Model
from harness.plain import json_scalar, unboxed
from harness.run.predict import check_predictions
from harness.run.scoring import score_unit
from harness.run.verify import verify
from harness.scores import Mean, Metric, Ratio
from harness.task import Ceiling, Protocol, Task
from harness.types import (
    Answer,
    AnswerForm,
    Box,
    Box3D,
    Interval,
    Point,
    Prediction,
    Query,
    Sample,
    Target,
)

ANSWERS = {
    AnswerForm.BOXES: Answer(
        boxes=(Box(*map(np.int64, (0, 1, 3, 4))),), box_scores=(np.float32(0.5),)
    ),
    AnswerForm.BOX_TRACK: Answer(box_track=(Box(*map(np.int16, (0, 1, 3, 4))),)),
    AnswerForm.BOX_3D: Answer(boxes_3d=(Box3D(*np.ones(6, np.float32)),)),
    AnswerForm.POINTS: Answer(points=(Point(np.uint8(1), np.float16(2)),)),
    AnswerForm.COUNT: Answer(count=np.int64(3)),
    AnswerForm.NUMBER: Answer(number=np.float32(0.25)),
    AnswerForm.INTERVAL: Answer(interval=Interval(np.float32(0), np.array(1))),
}


def sample_of(form, place=0):
    media = pixels([np.zeros((4, 6, 3), np.uint8)], times=(0.0,), is_video=False, id=f"{place}")
    query = Query(id=f"q{place}", text="Where?", media=(media,), forms=(form,))
    return Sample(id=f"{place}", query=query, target=Target(answer=ANSWERS[form]), group=f"{place}")


def scored(unit, predictions):
    (sample,), (prediction,) = unit, predictions
    same = prediction.answer == sample.target.answer
    return {"hit": Mean(np.float32(same)), "part": Ratio(np.int64(same), np.int64(1))}


def task_of(form):
    return Task(
        name="scalars",
        annotations=(),
        check=lambda: (),
        split="val",
        forms=(form,),
        samples=lambda: (sample_of(form, place) for place in range(3)),
        protocol=Protocol(
            name="scalars/own",
            metrics=(Metric("hit"), Metric("part")),
            headline="hit",
            score=scored,
            ceiling=Ceiling(value=1.0),
            about="whether an answer is the ground truth",
        ),
    )


class Scalars(Model):
    """Answers in scalars of NumPy."""

    name, batch_size = "scalars", 2

    def __init__(self, form):
        self.form = form

    def describe(self):
        return {"threshold": np.float32(0.5), "layers": np.int64(2)}

    def predict(self, queries):
        return [Prediction(query_id=query.id, answer=ANSWERS[self.form]) for query in queries]


def leaves(value):
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


@pytest.mark.parametrize("form", ANSWERS)
def test_a_prediction_has_pythons_numbers(form):
    sample = sample_of(form)
    given = Prediction(query_id=sample.query.id, answer=ANSWERS[form])
    (prediction,) = check_predictions([sample.query], [given])
    numbers = leaves(tuple(getattr(prediction.answer, name) for name in Answer.__slots__))
    assert prediction.failure is None
    assert {type(number) for number in numbers} <= {int, float, bool, type(None)}
    assert prediction.answer == ANSWERS[form]


@pytest.mark.parametrize("form", ANSWERS)
def test_an_evaluation_and_a_verification_take_scalars_of_numpy(form, tmp_path):
    task = task_of(form)
    run = harness.evaluate(task, Scalars(form), out=tmp_path)
    assert run.results["metrics"]["hit"] == 1.0 and run.results["n_failed"] == 0
    described = run.manifest["model"]["description"]
    assert described == {"threshold": 0.5, "layers": 2}
    assert all(check.is_passed for check in verify(task, None))


def test_scores_are_pythons_numbers():
    sample = sample_of(AnswerForm.COUNT)
    prediction = Prediction(query_id=sample.query.id, answer=sample.target.answer)
    scores = score_unit(task_of(AnswerForm.COUNT), [sample], [prediction]).scores
    assert type(scores["hit"].value) is float and type(scores["part"].numerator) is int


def test_what_is_not_a_scalar_fails_its_sample_and_names_its_type():
    sample = sample_of(AnswerForm.NUMBER)
    given = Prediction(query_id=sample.query.id, answer=Answer(number=np.ones(2)))
    with pytest.raises((TypeError, ValueError)):
        check_predictions([sample.query], [given])
    with pytest.raises(TypeError, match="ndarray"):
        json_scalar(np.ones(2))
    for plain in (1, 0.5, "x", None, [1], {"a": 1}):
        assert unboxed(plain) is plain

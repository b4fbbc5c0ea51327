"""What a model gives becomes a valid prediction, or a failure of the right kind."""

from types import SimpleNamespace

import numpy as np
import pytest

from harness.errors import (
    DataError,
    MaskError,
    MissingDependency,
    NotRestored,
    OutOfMemory,
    Unavailable,
    UsageError,
)
from harness.masks import Rle
from harness.media import pixels, placeholder_media
from harness.run.batching import Batch, is_done, remaining_batches
from harness.run.predict import (
    call_guarded,
    check_predictions,
    fault_of,
    records,
    split_readable,
)
from harness.run.timing import Stage
from harness.store.journal import JournalPosition
from harness.types import (
    Answer,
    AnswerForm,
    Box,
    FailureKind,
    Interval,
    Point,
    Prediction,
    Query,
)


def query(form, name="q", *, frames=2):
    images = [np.zeros((4, 6, 3), np.uint8)] * frames
    media = pixels(images, times=tuple(map(float, range(frames))), is_video=frames > 1, id=name)
    return Query(id=name, text="?", media=(media,), forms=(form,))


MASK = Rle.empty(4, 6)
FITTING = [
    (AnswerForm.MASK_TRACK, Answer(masks=(MASK, MASK))),
    (AnswerForm.BOXES, Answer(boxes=(Box(0, 0, 1, 1),))),
    (AnswerForm.BOXES, Answer(no_target=True)),
    (AnswerForm.BOX_TRACK, Answer(box_track=(None, Box(0, 0, 1, 1)))),
    (AnswerForm.COUNT, Answer(points=(Point(1, 1),))),
    (AnswerForm.COUNT, Answer(count=0)),
    (AnswerForm.NUMBER, Answer(number=-1.5)),
]
UNFITTING = [
    (AnswerForm.MASK_TRACK, Answer(boxes=(Box(0, 0, 1, 1),))),
    (AnswerForm.MASK_TRACK, Answer(masks=(MASK,))),
    (AnswerForm.MASK_TRACK, Answer(masks=(MASK, Rle.empty(6, 4)))),
    (AnswerForm.BOX_TRACK, Answer(box_track=(None,))),
    (AnswerForm.BOXES, Answer(boxes=(Box(0, 0, float("inf"), 1),))),
    (AnswerForm.BOXES, Answer(boxes=(Box(1, 0, 1, 1),))),
    (AnswerForm.POINTS, Answer(points=(Point(float("nan"), 1),))),
    (AnswerForm.INTERVAL, Answer(interval=Interval(0.0, float("inf")))),
    (AnswerForm.NUMBER, Answer(number=float("nan"))),
    (AnswerForm.COUNT, Answer(count=-1)),
    (AnswerForm.COUNT, Answer(count=1.5)),
]


@pytest.mark.parametrize(("form", "answer"), FITTING)
def test_an_answer_that_fits_has_no_fault(form, answer):
    assert fault_of(query(form), answer) is None


@pytest.mark.parametrize(("form", "answer"), UNFITTING)
def test_an_answer_that_does_not_fit_is_a_failure_of_the_model(form, answer):
    asked = query(form)
    given = Prediction(query_id="q", answer=answer, responses=("said",))
    (found,) = check_predictions([asked], [given])
    assert found.failure.kind is FailureKind.MODEL and found.responses == ("said",)


def test_predictions_in_another_order_or_number_are_refused():
    asked = [query(AnswerForm.NUMBER, name) for name in "ab"]
    given = [Prediction(query_id=name, answer=Answer(number=1.0)) for name in "ba"]
    for wrong in (given, given[:1]):
        with pytest.raises(ValueError):
            check_predictions(asked, wrong)


MODEL = SimpleNamespace(name="model", batch_size=8)


def guarded(error, *names):
    """The results of queries of which `b` raises, and the batches that were tried."""
    tried = []

    def call(queries):
        tried.append([one.id for one in queries])
        if any(one.id == "b" for one in queries):
            raise error
        return [one.id for one in queries]

    stage = Stage()
    asked = [query(AnswerForm.NUMBER, name) for name in names]
    return call_guarded(MODEL, asked, stage, call), tried, stage


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("x"), FailureKind.MODEL),
        (MaskError("x"), FailureKind.MODEL),
        (SystemExit(1), FailureKind.MODEL),
        (DataError("x"), FailureKind.INFRASTRUCTURE),
        (Unavailable("x"), FailureKind.INFRASTRUCTURE),
        (OutOfMemory("x"), FailureKind.INFRASTRUCTURE),
        (MemoryError("x"), FailureKind.INFRASTRUCTURE),
        (type("OutOfMemoryError", (RuntimeError,), {})("x"), FailureKind.INFRASTRUCTURE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_fails_the_sample_that_causes_it_and_no_other(error, kind):
    (a, b, c, d), _, stage = guarded(error, *"abcd")
    assert (a, c, d) == ("a", "c", "d") and b.failure.kind is kind
    assert stage.crashed == (kind is FailureKind.MODEL)


@pytest.mark.parametrize("kind", [UsageError, MissingDependency, NotRestored])
def test_what_no_sample_is_to_blame_for_ends_the_run(kind):
    error = kind("a thing", expected="one", found="another")
    with pytest.raises(kind):
        guarded(error, *"abcd")


def test_samples_whose_images_are_lost_are_left_out_and_kept_ones_not_written_again():
    asked = [query(AnswerForm.NUMBER, name) for name in "abc"]
    lost = placeholder_media(DataError("gone"), size=(6, 4))
    asked[1] = Query(id="b", text="?", media=(lost,), forms=(AnswerForm.NUMBER,))
    batch = Batch(0, tuple(asked), kept=frozenset("c"))
    whole, failures = split_readable(batch)
    assert [one.id for one in whole] == ["a", "c"]
    assert [(one.query_id, one.failure.kind) for one in failures] == [
        ("b", FailureKind.INFRASTRUCTURE)
    ]
    given = [Prediction(query_id=name, answer=Answer(number=1.0)) for name in "ac"]
    assert [one["sample"] for one in records(batch, given)] == ["a"]


@pytest.mark.parametrize("retry_failed", [True, False])
def test_what_was_lost_is_asked_again_and_what_failed_if_that_is_wanted(retry_failed, tmp_path):
    def done(failure):
        return is_done(JournalPosition(tmp_path, 0, 1, failure), retry_failed=retry_failed)

    assert not is_done(None, retry_failed=retry_failed)
    assert done(None) and not done(FailureKind.INFRASTRUCTURE)
    assert done(FailureKind.MODEL) is done(FailureKind.PARSE) is not retry_failed


def test_a_batch_is_done_again_whole_unless_the_model_answers_by_the_sample(tmp_path):
    asked = Batch(0, tuple(query(AnswerForm.NUMBER, name) for name in "ab"))
    places = {"a": JournalPosition(tmp_path, 0, 1, None)}
    for by_sample, names in ((False, "ab"), (True, "b")):
        (left,) = remaining_batches([asked], places, retry_failed=False, by_sample=by_sample)
        assert [one.id for one in left.queries] == [*names]

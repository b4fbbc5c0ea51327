"""Answers of other samples, of one type in another unit, or of inverted labels are noted."""

import numpy as np
import pytest

from harness.formats.agreement import Agreement
from harness.formats.evidence import tail
from harness.masks import Rle
from harness.media import pixels
from harness.types import (
    Answer,
    AnswerForm,
    Box,
    Interval,
    Prediction,
    Query,
    Sample,
    Target,
    query_id,
)

WIDTH, HEIGHT, SECONDS = 160, 120, 60
IMAGE = pixels([np.zeros((HEIGHT, WIDTH, 3), np.uint8)], times=[0.0], is_video=False, id="image")
VIDEO = pixels(
    [np.zeros((4, 4, 3), np.uint8)] * (SECONDS + 1),
    times=range(SECONDS + 1),
    is_video=True,
    id="video",
)


def places(count, seed=0):
    """Left, top, right and bottom as shares of an image, a row a sample."""
    rng = np.random.default_rng(seed)
    low = rng.random((count, 2)) * 0.7
    return np.concatenate([low, low + 0.1 + 0.2 * rng.random((count, 2))], axis=1)


def mask(row, *, inverted=False):
    left, top, right, bottom = (row * [WIDTH, HEIGHT, WIDTH, HEIGHT]).round().astype(int)
    array = np.full((HEIGHT, WIDTH), inverted)
    array[top:bottom, left:right] = not inverted
    return Answer(masks=(Rle.from_array(array),))


def box(row):
    return Answer(boxes=(Box(*(row * [WIDTH, HEIGHT, WIDTH, HEIGHT]).tolist()),))


def interval(row):
    return Answer(interval=Interval(*(row[[0, 2]] * SECONDS).tolist()))


FORMS = {
    "masks": (AnswerForm.MASK, mask, IMAGE),
    "boxes": (AnswerForm.BOXES, box, IMAGE),
    "intervals": (AnswerForm.INTERVAL, interval, VIDEO),
}


def notes(form, truths, answers, *, media=(), groups=None, types=None, options=()):
    """The notes on a file of answers to questions with these ground truths."""
    agreement = Agreement()
    for number, (truth, answer) in enumerate(zip(truths, answers, strict=True)):
        query = Query(
            id=query_id(str(number)), text="?", media=media, forms=(form,), options=options
        )
        sample = Sample(
            id=str(number),
            query=query,
            target=Target(answer=truth),
            group=groups[number] if groups else "",
            categories={"type": types[number]} if types else {},
        )
        agreement.add([sample], [Prediction(query_id=query.id, answer=answer)])
    return list(agreement.notes("file", "x.jsonl"))


def of_places(form, truths, answers, **more):
    """The notes on places that are given as shares of an image or video."""
    answer_form, make, media = FORMS[form]
    given = [make(np.clip(row, 0, 1)) for row in answers]
    return notes(answer_form, [make(row) for row in truths], given, media=(media,), **more)


def imprecise(rows):
    """The answers of a good model: the IoU is 0.7 and more."""
    sides = np.tile(rows[:, 2:] - rows[:, :2], 2)
    return rows + 0.04 * sides * np.random.default_rng(1).normal(size=rows.shape)


ORDERS = {
    "ids shuffled": lambda n: np.random.default_rng(4).permutation(n),
    "3 samples before": lambda n: np.roll(np.arange(n), 3),
    "the sample after": lambda n: np.roll(np.arange(n), -1),
    "opposite order": lambda n: np.arange(n)[::-1],
    "sorted as text": lambda n: np.array(sorted(range(n), key=str)),
}


@pytest.mark.parametrize("form", ["masks", "boxes"])
@pytest.mark.parametrize("count", [6, 12, 24])
@pytest.mark.parametrize("name", ORDERS)
def test_places_of_other_samples_are_noted(form, count, name):
    rows = places(count)
    order = ORDERS[name](count)
    if (order == np.arange(count)).all():  # fewer than eleven numbers are in order as text
        assert of_places(form, rows, imprecise(rows)) == []
        return
    (note,) = of_places(form, rows, imprecise(rows)[order])
    if count > 6:  # of six samples, three before are three after
        assert name in note
    assert f"{count} of {count} that agree" in note


@pytest.mark.parametrize("name", list(ORDERS)[:4])
def test_intervals_of_other_samples_are_noted(name):
    rows = places(24)
    assert name in of_places("intervals", rows, imprecise(rows)[ORDERS[name](24)])[0]


@pytest.mark.parametrize("objects", [2, 4])
def test_labels_that_are_reversed_within_videos_are_noted(objects):
    count = 12 * objects
    rows, groups = places(count), [str(n // objects) for n in range(count)]
    order = [objects * (n // objects) + objects - 1 - n % objects for n in range(count)]
    (note,) = of_places("masks", rows, imprecise(rows)[order], groups=groups)
    assert "labels reversed" in note
    assert of_places("masks", rows, imprecise(rows), groups=groups) == []


def test_a_model_that_takes_any_object_of_an_image_is_poor_and_not_misread():
    rows, groups = places(40), [str(n // 2) for n in range(40)]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        taken = [2 * (n // 2) + rng.integers(2) for n in range(40)]
        assert of_places("masks", rows, rows[taken], groups=groups) == []


@pytest.mark.parametrize("name", list(ORDERS)[1:])
def test_letters_of_other_samples_are_noted(name):
    letters = [Answer(choice=letter) for letter in np.random.default_rng(2).choice([*"ABCD"], 40)]
    answers = [letters[n] for n in ORDERS[name](40)]
    (note,) = notes(AnswerForm.CHOICE, letters, answers, options=tuple("wxyz"))
    assert name in note


def test_counts_that_are_one_off_and_sorted_are_not_those_of_other_samples():
    truths = [Answer(count=1 + n // 4) for n in range(40)]
    for step, name in ((-1, "one too few"), (1, "one too many")):
        answers = [Answer(count=truth.count + step) for truth in truths]
        (note,) = notes(AnswerForm.COUNT, truths, answers)
        assert name in note


def test_the_type_of_question_that_is_in_another_unit_is_named():
    rng = np.random.default_rng(3)
    types = ["distance", "size", "count", "count"] * 5
    values = {kind: rng.permutation(np.arange(2, 22)) / 2 for kind in set(types)}
    numbers = [float(values[kind][place]) for place, kind in enumerate(types)]
    factors = {"distance": 100.0, "size": 1.0, "count": 1.0}
    truths = [Answer(number=number) for number in numbers]
    answers = [
        Answer(number=number * factors[kind]) for number, kind in zip(numbers, types, strict=True)
    ]
    (note,) = notes(AnswerForm.NUMBER, truths, answers, types=types)
    assert "type 'distance': 5 of 5" in note and "100 times too large" in note
    assert notes(AnswerForm.NUMBER, truths, truths, types=types) == []


def test_types_are_found_behind_many_samples_of_others():
    numbers = [1.5, 2.5, 4.5, 7.5, 12.5]
    truths = [Answer(number=3.0)] * 2500 + [Answer(number=number) for number in numbers]
    answers = truths[:2500] + [Answer(number=number / 60) for number in numbers]
    types = ["size"] * 2500 + ["time"] * 5
    (note,) = notes(AnswerForm.NUMBER, truths, answers, types=types)
    assert "'time'" in note and "60 times too small" in note


@pytest.mark.parametrize("inverted", ["ground truth", "predictions"])
def test_either_side_of_masks_may_be_inverted(inverted):
    rows = places(9)
    truths = [mask(row, inverted=inverted == "ground truth") for row in rows]
    answers = [mask(row, inverted=inverted != "ground truth") for row in imprecise(rows)]
    (note,) = notes(AnswerForm.MASK, truths, answers, media=(IMAGE,))
    assert "9 of 9" in note and "inverted, or if those of the ground truth are" in note


def test_probabilities_of_many_samples_are_finite():
    assert tail(1500, 2000, 0.5) < 1e-100
    assert tail(0, 10, 0.1) == tail(3, 5, 1.0) == 1.0

"""Answers that agree with the ground truth in another meaning alone are named, others are not."""

import numpy as np
import pytest

from harness.errors import DataError
from harness.formats.agreement import Agreement
from harness.masks import Rle
from harness.media import pixels
from harness.types import (
    Answer,
    AnswerForm,
    Box,
    Failure,
    FailureKind,
    Interval,
    Point,
    Prediction,
    Query,
    Sample,
    Target,
    query_id,
)

SIZES = [(640, 480), (1280, 720), (500, 375), (1024, 768), (800, 600), (640, 427)]
SHARES = [
    (0.1, 0.2, 0.5, 0.9),
    (0.3, 0.3, 0.6, 0.7),
    (0.62, 0.05, 0.9, 0.95),
    (0.05, 0.6, 0.3, 0.8),
    (0.4, 0.1, 0.9, 0.45),
    (0.5, 0.55, 0.95, 0.8),
]
"""Boxes as shares of their images."""
LENGTHS = [30, 61, 45, 120, 90, 33]
SPANS = [(0.3, 0.7), (0.25, 0.55), (0.1, 0.25), (0.4, 0.85), (0.2, 0.45), (0.35, 0.75)]
IMAGES = [
    pixels([np.zeros((h, w, 3), np.uint8)], times=[0.0], is_video=False, id=f"{w}x{h}")
    for w, h in SIZES
]
VIDEOS = [
    pixels([np.zeros((4, 4, 3), np.uint8)] * n, times=range(n), is_video=True, id=f"{n}s")
    for n in LENGTHS
]


def in_pixels(number):
    (width, height), share = SIZES[number % 6], SHARES[(number + number // 6) % 6]
    return share[0] * width, share[1] * height, share[2] * width, share[3] * height


def doubts(form, media, truths, answers, *, responses=(), sizes=False, stated=False, options=()):
    """The notes on answers to questions with these ground truths."""
    found = Agreement()
    for number, (truth, answer) in enumerate(zip(truths, answers, strict=True)):
        query = Query(
            id=query_id(str(number)), text="?", media=media(number), forms=(form,), options=options
        )
        sample = Sample(id=str(number), query=query, target=Target(answer=truth))
        failure = None if answer else Failure(FailureKind.PARSE, "unread")
        prediction = Prediction(
            query_id=query.id, answer=answer, failure=failure, responses=responses
        )
        found.add([sample], [prediction])
    return list(found.notes("file", "x.jsonl", sizes=sizes, stated=stated))


def of_boxes(turn, count=3, **more):
    truths = [Answer(boxes=(Box(*in_pixels(n)),)) for n in range(count)]
    read = [turn(np.array(in_pixels(n)), np.array(SIZES[n % 6] * 2, float)) for n in range(count)]
    answers = [Answer(boxes=(Box(*box),)) for box in read]
    return doubts(AnswerForm.BOXES, lambda n: (IMAGES[n % 6],), truths, answers, **more)


RESIZED = {
    "divided by 2": lambda box, size: box / 2,
    "parts of 1000 of each side": lambda box, size: 1000 * box / size,
    "parts of 1000 of each side, y first": lambda box, size: (1000 * box / size)[[1, 0, 3, 2]],
    "resized to 336 × 336": lambda box, size: 336 * box / size,
    "longer side is resized to 448": lambda box, size: 448 * box / size.max(),
    "y first": lambda box, size: box[[1, 0, 3, 2]],
}


@pytest.mark.parametrize("name", RESIZED)
def test_three_boxes_of_another_unit_or_order_are_refused_until_someone_states_them(name):
    with pytest.raises(DataError, match=f"3 of 3 that agree .*{name}, and 0 .*coordinates pixels"):
        of_boxes(RESIZED[name])
    assert name in of_boxes(RESIZED[name], stated=True)[0]
    assert name in of_boxes(RESIZED[name], responses=("a model's text",))[0]
    assert of_boxes(RESIZED[name], count=2) == []


@pytest.mark.parametrize("count", [3, 12])
def test_a_ground_truth_in_percent_is_not_taken_for_small_predictions(count):
    shares = [100 * np.array(SHARES[(n + n // 6) % 6]) for n in range(count)]
    truths = [Answer(boxes=(Box(*share),)) for share in shares]
    answers = [Answer(boxes=(Box(*np.array(in_pixels(n)) + 1),)) for n in range(count)]
    with pytest.raises(DataError, match=r'ground truth in parts of 100 .*coordinates = "percent"'):
        doubts(AnswerForm.BOXES, lambda n: (IMAGES[n % 6],), truths, answers)


def test_centres_and_sizes_are_refused():
    with pytest.raises(DataError, match=r"6 of 6 .*\[centre x.*`jq -c"):
        of_boxes(lambda b, _: np.append((b[:2] + b[2:]) / 2, b[2:] - b[:2]), count=6)


def _shifted(share):
    """A function that moves boxes to the right and down by a share of their sides."""
    return lambda box, _: box + share * np.tile(box[2:] - box[:2], 2)


@pytest.mark.parametrize("sizes", [False, True])
@pytest.mark.parametrize("count", [4, 18])
def test_centres_that_were_read_as_corners_are_refused(count, sizes):
    with pytest.raises(DataError, match=rf"{count} of {count} .*if they are \[centre x"):
        of_boxes(_shifted(0.5), count=count, sizes=sizes)


def test_sizes_of_coco_that_were_corners_are_refused():
    with pytest.raises(DataError, match=r"6 of 6 .*\[left, top, right, bottom\]"):
        of_boxes(lambda b, _: np.append(b[:2], b[:2] + b[2:]), count=6, sizes=True)


def test_poor_boxes_are_scored_as_they_are():
    rng = np.random.default_rng(0)
    poor = {
        "right": lambda box, size: box,
        "moved": lambda box, size: box + np.tile(0.2 * size[:2], 2),
        "biased": lambda box, size: box + np.tile([0.2, 0.1], 2) * size,
        "whole": lambda box, size: np.append([0, 0], size[:2]),
        "moved by a third of its sides": _shifted(1 / 3),
        "moved by its sides": _shifted(1),
        "large": lambda box, size: box + 0.2 * np.array([-1, -1, 1, 1]) * size,
        "quarter": lambda box, size: np.append([0, 0], size[:2] / 2),
        "random": lambda box, size: np.sort(rng.random((2, 2)), 0).ravel() * size,
    }
    assert {name: of_boxes(turn, count=18) for name, turn in poor.items()} == {
        name: [] for name in poor
    }


def test_points_likewise():
    truths = [Answer(boxes=(Box(*in_pixels(n)),)) for n in range(6)]
    centres = [np.array(in_pixels(n)).reshape(2, 2).mean(0) for n in range(6)]

    def given(turn):
        points = [Point(*turn(xy, np.array(SIZES[n]))) for n, xy in enumerate(centres)]
        answers = [Answer(points=(point,)) for point in points]
        return doubts(AnswerForm.POINTS, lambda n: (IMAGES[n],), truths, answers)

    assert given(lambda xy, size: xy) == given(lambda xy, size: (0, 0)) == []
    with pytest.raises(DataError, match="normalized_1000 reads"):
        given(lambda xy, size: 1000 * xy / size)
    with pytest.raises(DataError, match="flipped from left to right"):
        given(lambda xy, size: (size[0] - xy[0], xy[1]))


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        ("", lambda start, end, length: (start, end)),
        ("", lambda start, end, length: (0, length)),
        ("duration", lambda start, end, length: (start, end - start)),
        ("milliseconds", lambda start, end, length: (start * 1000, end * 1000)),
        ("clips of two seconds", lambda start, end, length: (start / 2, end / 2)),
        ("percentages", lambda start, end, length: (100 * start / length, 100 * end / length)),
    ],
)
def test_times_in_another_unit_are_noted(name, turn):
    spans = [(a * n, b * n) for (a, b), n in zip(SPANS, LENGTHS, strict=True)]
    truths = [Answer(interval=Interval(*span)) for span in spans]
    read = [turn(*span, length) for span, length in zip(spans, LENGTHS, strict=True)]
    answers = [Answer(interval=Interval(*span)) for span in read]
    found = doubts(AnswerForm.INTERVAL, lambda n: (VIDEOS[n],), truths, answers)
    assert len(found) == bool(name) and all(name in one for one in found)


def letters(text):
    return [Answer(choice=letter) for letter in text]


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        ("", lambda truth: truth),
        ("", lambda truth: "A" * len(truth)),
        ("", lambda truth: "".join(sorted(truth))),
        ("too late", lambda truth: truth.translate(str.maketrans("ABC", "BCD"))),
        ("opposite", lambda truth: truth.translate(str.maketrans("ABC", "DCB"))),
        ("sample before", lambda truth: "D" + truth[:-1]),
        ("sample after", lambda truth: truth[1:] + "D"),
    ],
)
def test_letters_that_are_counted_otherwise_or_shifted_are_noted(name, turn):
    truth = "ABCBACCABACBBCAACB"
    found = doubts(
        AnswerForm.CHOICE,
        lambda _: (),
        letters(truth),
        letters(turn(truth)),
        options=tuple("wxyz"),
    )
    assert len(found) == bool(name) and all(name in one for one in found)


def padded(mask, share):
    """A mask in a square that is padded, `share` of it before, and resized to the image's size."""
    height, width = mask.shape
    side = max(mask.shape)
    square = np.zeros((side, side), bool)
    top, left = (int((side - length) * share) for length in mask.shape)
    square[top : top + height, left : left + width] = mask
    rows, columns = (np.arange(length) * side // length for length in mask.shape)
    return square[np.ix_(rows, columns)]


@pytest.mark.parametrize("factor", [1, 100, 1 / 1000, 1e6])
def test_numbers_in_another_unit_are_noted(factor):
    truths = [Answer(number=n) for n in (1.2, 3.4, 0.7, 5.1, 2.2, 8.8)]
    answers = [Answer(number=one.number * factor) for one in truths]
    found = doubts(AnswerForm.NUMBER, lambda _: (), truths, answers)
    assert len(found) == (factor != 1)


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        ("", lambda mask: mask),
        ("", lambda mask: np.ones_like(mask)),
        ("", lambda mask: np.roll(mask, 200, 1)),
        ("inverted", lambda mask: ~mask),
        ("upside down", lambda mask: mask[::-1]),
        ("flipped", lambda mask: mask[:, ::-1]),
    ],
)
def test_masks_that_are_turned_or_inverted_are_noted(name, turn):
    masks = []
    for number, (width, height) in enumerate(SIZES):
        left, top, right, bottom = map(int, in_pixels(number))
        mask = np.zeros((height, width), bool)
        mask[top:bottom, left:right] = True
        mask[: 2 + height // 3, : 2 + width // 4] = True
        masks.append(mask)
    truths, answers = (
        [Answer(masks=(Rle.from_array(np.ascontiguousarray(one)),)) for one in drawn]
        for drawn in (masks, map(turn, masks))
    )
    found = doubts(AnswerForm.MASK, lambda n: (IMAGES[n],), truths, answers)
    assert len(found) == bool(name) and all(name in one for one in found)


@pytest.mark.parametrize(("name", "share"), [("right or bottom", 0.0), ("both sides", 0.5)])
def test_masks_of_padded_squares_are_noted(name, share):
    image = pixels([np.zeros((240, 640, 3), np.uint8)], times=[0.0], is_video=False, id="wide")
    masks = []
    for left, top, right, bottom in SHARES:
        mask = np.zeros((240, 640), bool)
        mask[int(240 * top) : int(240 * bottom), int(640 * left) : int(640 * right)] = True
        masks.append(mask)
    truths, answers = (
        [Answer(masks=(Rle.from_array(mask),)) for mask in drawn]
        for drawn in (masks, [padded(mask, share) for mask in masks])
    )
    (doubt,) = doubts(AnswerForm.MASK, lambda _: (image,), truths, answers)
    assert name in doubt


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        ("1.25 times too small", lambda box, size: box * 0.8),
        ("resized to 112 × 112", lambda box, size: 112 * box / size),
    ],
)
def test_scales_that_no_list_has_are_fitted(name, turn):
    with pytest.raises(DataError, match=name):
        of_boxes(lambda box, size: turn(box, size), count=9)


def test_a_sample_without_an_answer_still_has_neighbours():
    truth = letters("ABCDBACDCABDACBDBCDA" * 2)
    given = [None if n % 5 == 2 else one for n, one in enumerate(truth[-1:] + truth[:-1])]
    found = doubts(AnswerForm.CHOICE, lambda _: (), truth, given, options=tuple("wxyz"))
    assert len(found) == 1 and "32 of 32" in found[0] and "sample before" in found[0]

"""Answers that are flipped, cropped, shifted, or in another order of frames are noted."""

import cv2
import numpy as np
import pytest

from harness.formats.agreement import Agreement
from harness.masks import Rle
from harness.media import pixels
from harness.types import (
    Answer,
    AnswerForm,
    Interval,
    Prediction,
    Query,
    Sample,
    Target,
    query_id,
)

WIDTH, HEIGHT = 200, 120
IMAGE = pixels([np.zeros((HEIGHT, WIDTH, 3), np.uint8)], times=[0.0], is_video=False, id="image")
FRAMES = 12
FILM = pixels(
    [np.zeros((HEIGHT, WIDTH, 3), np.uint8)] * FRAMES,
    times=range(FRAMES),
    is_video=True,
    id="film",
)
LONG = pixels([np.zeros((4, 4, 3), np.uint8)] * 60, times=range(60), is_video=True, id="long")


def notes(form, truths, answers, *, media=(), options=(), groups=None):
    agreement = Agreement()
    for number, (truth, answer) in enumerate(zip(truths, answers, strict=True)):
        query = Query(
            id=query_id(str(number)), text="?", media=media, forms=(form,), options=options
        )
        group = groups[number] if groups else str(number)
        sample = Sample(id=str(number), query=query, target=Target(answer=truth), group=group)
        agreement.add([sample], [Prediction(query_id=query.id, answer=answer)])
    return " ".join(agreement.notes("file", "x.jsonl"))


def rectangle(left, top, width=50, height=40):
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[top : top + height, left : left + width] = True
    return mask


def masks_of(arrays):
    return Answer(masks=tuple(map(Rle.from_array, arrays)))


def words(values):
    return [Answer(text="yes" if value else "no") for value in values]


@pytest.mark.parametrize(("share", "is_noted"), [(1.0, True), (0.7, False), (0.0, False)])
def test_flipped_yes_and_no_are_noted(share, is_noted):
    rng = np.random.default_rng(0)
    truths = rng.random(30) < 0.5
    wrong = np.arange(30) < round(30 * share)
    text = notes(AnswerForm.TEXT, words(truths), words(truths ^ wrong))
    assert ("flipped, yes for no" in text) == is_noted


def test_always_yes_is_not_flipped():
    truths = np.arange(30) == 3
    assert not notes(AnswerForm.TEXT, words(truths), words(np.ones(30, bool)))


@pytest.mark.parametrize(
    ("step", "name"), [(1, "one too many"), (-1, "one too few"), (2, ""), (0, "")]
)
def test_counts_that_are_all_one_off_are_noted(step, name):
    counts = [2, 5, 1, 7, 3, 9, 4, 1, 6, 2, 8, 3]
    truths, answers = ([Answer(count=count + more) for count in counts] for more in (0, step))
    text = notes(AnswerForm.COUNT, truths, answers)
    assert name in text if name else not text


def test_a_poor_counter_is_not_noted():
    counts = [2, 5, 1, 7, 3, 9, 4, 1, 6, 2, 8, 3]
    answers = [Answer(count=count + (number % 4 != 0)) for number, count in enumerate(counts)]
    assert not notes(AnswerForm.COUNT, [Answer(count=count) for count in counts], answers)


@pytest.mark.parametrize(("step", "name"), [(1, "too late"), (-1, "too early")])
def test_letters_that_go_round_are_named_as_shifted(step, name):
    rng = np.random.default_rng(1)
    truths = rng.integers(0, 4, 20)
    shifted = (truths + step) % 4
    sides = [[Answer(choice="ABCD"[place]) for place in side] for side in (truths, shifted)]
    text = notes(AnswerForm.CHOICE, *sides, options=tuple("wxyz"))
    assert f"20 of 20 that agree with the ground truth if they are one letter {name}" in text


@pytest.mark.parametrize(
    ("share", "name"), [(1.0, "of the square"), (0.875, "seven eighths of the square")]
)
def test_masks_of_the_square_in_the_middle_are_noted(share, name):
    true = [rectangle(50 + 7 * n, 10 + 9 * n) for n in range(7)]
    side = int(share * HEIGHT)
    top, left = (HEIGHT - side) // 2, (WIDTH - side) // 2
    cut = [mask[top : top + side, left : left + side].astype(np.uint8) for mask in true]
    cropped = [cv2.resize(part, (WIDTH, HEIGHT), interpolation=0) > 0 for part in cut]
    sides = [[masks_of([mask]) for mask in side_] for side_ in (true, cropped)]
    assert name in notes(AnswerForm.MASK, *sides, media=(IMAGE,))


def track(number):
    """Masks of an object that crosses the frame, at another height in each video."""
    return [rectangle(5 + 12 * frame, 5 + 6 * number, 40, 30) for frame in range(FRAMES)]


ORDERS = {
    "opposite order of frames": range(FRAMES)[::-1],
    "0, 1, 10, …, 2 (were names sorted": sorted(range(FRAMES), key=str),
    "1, 10, 11, …, 2 (were names sorted": sorted(range(FRAMES), key=lambda n: str(n + 1)),
    "one frame late": [max(frame - 1, 0) for frame in range(FRAMES)],
    "": range(FRAMES),
}


@pytest.mark.parametrize("name", ORDERS)
def test_frames_in_another_order_are_noted(name):
    tracks = [track(number) for number in range(12)]
    answers = [masks_of([masks[frame] for frame in ORDERS[name]]) for masks in tracks]
    text = notes(AnswerForm.MASK_TRACK, list(map(masks_of, tracks)), answers, media=(FILM,))
    assert name in text if name else "frame" not in text


def test_a_slow_tracker_is_not_noted():
    tracks = [track(number) for number in range(12)]
    answers = [masks_of([masks[frame // 2] for frame in range(FRAMES)]) for masks in tracks]
    assert not notes(AnswerForm.MASK_TRACK, list(map(masks_of, tracks)), answers, media=(FILM,))


SPANS = [(2, 9), (11, 20), (31, 52), (3, 6), (40, 44), (22, 37), (50, 58), (14, 16)]


@pytest.mark.parametrize(
    ("turn", "name"),
    [
        (lambda start, end: (60 - end, 60 - start), "counted from the video's end"),
        (lambda start, end: (start + 1, end + 1), "1.00 s later"),
        (lambda start, end: (start - 1.5, end - 1.5), "1.50 s earlier"),
        (lambda start, end: (start, end), ""),
        (lambda start, end: (start + 0.1 * end, end + 1.7), ""),
    ],
)
def test_intervals_from_the_end_or_shifted_are_noted(turn, name):
    truths = [Answer(interval=Interval(*map(float, span))) for span in SPANS]
    answers = [Answer(interval=Interval(*map(float, turn(*span)))) for span in SPANS]
    text = notes(AnswerForm.INTERVAL, truths, answers, media=(LONG,))
    assert name in text if name else not text


@pytest.mark.parametrize(("step", "name"), [(-1, "preceding"), (1, "next")])
def test_masks_of_the_neighbouring_object_are_noted(step, name):
    truths, answers, groups = [], [], []
    for video in range(14):
        objects = [rectangle(5 + 60 * n, 3 + 5 * video) for n in range(3)]
        for number in range(3):
            is_there = 0 <= number + step < 3
            shown = objects[number + step] if is_there else np.zeros_like(objects[0])
            truths.append(masks_of([objects[number]]))
            answers.append(masks_of([shown]))
            groups.append(str(video))
    text = notes(AnswerForm.MASK, truths, answers, media=(IMAGE,), groups=groups)
    assert f"those of the {name} object" in text

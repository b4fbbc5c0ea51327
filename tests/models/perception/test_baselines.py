import hashlib
import re

import numpy as np
import pytest

from harness import media, plugins
from harness.errors import UsageError
from harness.models.baselines.model import random_boxes, uniform, whole_frame
from harness.types import AnswerForm, Box, FailureKind, Interval, Point, Query, query_id

F = AnswerForm
BOTH = pytest.mark.parametrize(
    "model", [random_boxes(), whole_frame()], ids=lambda found: found.name
)
PIXELS = [F.MASK, F.MASK_TRACK, F.BOXES, F.BOX_TRACK, F.POINTS, F.INTERVAL]


def asked(name, *forms, scene=None, options=()):
    shown = () if scene is None else (scene.media,)
    return Query(id=query_id(name), text="?", media=shown, forms=forms, options=options)


def answer(model, query):
    (found,) = model.predict([query])
    assert found.failure is None, found.failure
    return found.answer


@pytest.mark.parametrize("name", ["random", "whole_frame"])
def test_a_floor_is_found_by_its_name(name):
    model = plugins.build("models", name)
    assert model.name == model.describe()["model"] == name


def test_whole_frame_says_that_everything_is_meant(moving):
    query = asked("x", *PIXELS, F.COUNT, F.CHOICE, F.NUMBER, scene=moving, options=("a", "b"))
    found = answer(whole_frame(), query)
    assert [mask.area for mask in found.masks] == [160 * 120] * 7
    assert found.boxes == (Box(0, 0, 160, 120),)
    assert found.box_track == (Box(0, 0, 160, 120),) * 7
    assert found.points == (Point(80, 60),)
    assert found.interval == Interval(0, 6)
    assert (found.count, found.choice, found.number) == (1, "A", 1)


@BOTH
def test_no_queries_give_no_predictions(model):
    assert model.predict([]) == []


@BOTH
@pytest.mark.parametrize("form", [F.TEXT, F.BOX_3D])
def test_a_form_without_a_guess_is_a_failure_of_the_model(model, form, standing):
    (found,) = model.predict([asked("x", F.COUNT, form, scene=standing)])
    assert found.answer is None
    assert found.failure.kind is FailureKind.MODEL
    assert form in found.failure.message


@BOTH
def test_a_choice_without_options_and_a_mask_without_an_image_are_failures(model):
    queries = [asked("x", F.CHOICE), *(asked("x", form) for form in PIXELS)]
    assert all(found.failure is not None for found in model.predict(queries))


@BOTH
def test_a_question_without_an_image_can_be_counted_and_chosen(model):
    found = answer(model, asked("x", F.COUNT, F.CHOICE, F.NUMBER, options=("a", "b")))
    assert None not in (found.count, found.choice, found.number)


def test_the_random_mask_is_the_random_box_in_every_frame(moving):
    found = answer(random_boxes(), asked("x", F.MASK_TRACK, F.BOXES, F.BOX_TRACK, scene=moving))
    (box,) = found.boxes
    rows, columns = np.nonzero(found.masks[0].to_array())
    assert box == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    assert found.masks[0].area == (box.right - box.left) * (box.bottom - box.top)
    assert set(found.masks) == {found.masks[0]}
    assert found.box_track == (box,) * 7


def test_random_answers_depend_on_neither_batch_nor_order_nor_other_forms(moving):
    forms = (*PIXELS, F.COUNT, F.CHOICE, F.NUMBER)
    options = ("a", "b", "c")
    queries = [asked(f"q{i}", *forms, scene=moving, options=options) for i in range(12)]
    together = random_boxes().predict(queries)
    assert random_boxes().predict(queries[::-1]) == together[::-1]
    assert [random_boxes().predict([query])[0] for query in queries] == together
    for query, found in zip(queries, together, strict=True):
        alone = Query(id=query.id, text="", media=(), forms=(F.COUNT,))
        assert answer(random_boxes(), alone).count == found.answer.count


def test_random_answers_depend_on_the_seed_and_the_query(standing):
    def boxes(seed, names):
        queries = [asked(name, F.BOXES, scene=standing) for name in names]
        return [found.answer.boxes for found in random_boxes(seed=seed).predict(queries)]

    names = [f"q{index}" for index in range(20)]
    assert boxes(0, names) == boxes(0, names)
    assert boxes(0, names) != boxes(1, names)
    assert len(set(boxes(0, names))) == 20


def test_random_guesses_cover_their_ranges_evenly(standing):
    queries = [
        asked(
            f"q{index}",
            F.COUNT,
            F.CHOICE,
            F.NUMBER,
            F.POINTS,
            F.BOXES,
            scene=standing,
            options=("a", "b", "c", "d"),
        )
        for index in range(2000)
    ]
    answers = [found.answer for found in random_boxes().predict(queries)]
    counts = np.bincount([found.count for found in answers], minlength=11)
    assert counts[:2].sum() == 0
    assert len(counts) == 11
    assert counts[2:].min() > 2000 / 9 * 0.75
    letters = [found.choice for found in answers]
    assert {letter: letters.count(letter) > 420 for letter in "ABCD"} == dict.fromkeys("ABCD", True)
    numbers = np.array([found.number for found in answers])
    assert 0.1 <= numbers.min() < numbers.max() <= 100
    assert np.median(np.log10(numbers)) == pytest.approx(0.5, abs=0.1)
    x = np.array([found.points[0].x for found in answers])
    assert x.mean() == pytest.approx(80, abs=4)
    edges = np.array([found.boxes[0] for found in answers])
    assert (edges[:, 0] < edges[:, 2]).all() and (edges[:, 1] < edges[:, 3]).all()
    assert edges.min(axis=0)[:2].tolist() == [0, 0] and edges.max(axis=0)[2:].tolist() == [160, 120]
    assert (edges[:, 2] - edges[:, 0]).mean() == pytest.approx(161 / 3, abs=3)


def test_an_image_of_one_pixel_has_one_box():
    one = media.pixels([np.zeros((1, 1, 3), np.uint8)], times=[0.0], is_video=False, id="one")
    for index in range(20):
        query = Query(id=query_id(str(index)), text="", media=(one,), forms=(F.BOXES, F.MASK))
        found = answer(random_boxes(), query)
        assert found.boxes == (Box(0, 0, 1, 1),)
        assert found.masks[0].area == 1


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x64-10 as its authors describe it, in whole numbers of Python."""
    whole = 2**64
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * counter[0], 0xCA5A826395121157 * counter[2]
        counter = [
            (second // whole) ^ counter[1] ^ key[0],
            second % whole,
            (first // whole) ^ counter[3] ^ key[1],
            first % whole,
        ]
        key = [(key[0] + 0x9E3779B97F4A7C15) % whole, (key[1] + 0xBB67AE8584CAA73B) % whole]
    return counter


def test_the_draws_are_those_of_philox_by_hand():
    digest = hashlib.blake2b(b"0 abc", digest_size=16, person=b"harness-floors").digest()
    key = [int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")]
    bits = philox([1, 0, 0, 0], key) + philox([2, 0, 0, 0], key)
    assert uniform("0 abc", 6).tolist() == [(word >> 11) / 2**53 for word in bits[:6]]


def test_floors_decode_no_frame():
    class Unreadable:
        key = None

        def __call__(self):
            raise AssertionError("a floor looked at the image")

    video = media.Media(
        [Unreadable()] * 3, size=(8, 6), times=(0, 1, 2), digest=lambda: "", is_video=True
    )
    query = Query(id=query_id("x"), text="", media=(video,), forms=tuple(PIXELS))
    assert len(answer(random_boxes(), query).masks) == 3
    assert len(answer(whole_frame(), query).masks) == 3


@pytest.mark.parametrize("build", [random_boxes, whole_frame])
def test_an_empty_batch_size_is_refused(build):
    with pytest.raises(UsageError, match=re.escape("batch_size=…")):
        build(batch_size=0)

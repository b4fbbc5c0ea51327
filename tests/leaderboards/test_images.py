import numpy as np
import pytest

from harness.leaderboards.images import describe_answer, shrink
from harness.leaderboards.unit_values import unit_value
from harness.masks import Rle
from harness.scores import Corpus, Mean, Metric, Ratio, UnitScore
from harness.types import Answer, Box, Interval

GIOU = Metric("giou")


def unit(**scores):
    return UnitScore(unit="e", group="e", samples=("e",), categories={}, failed=0, scores=scores)


def test_a_unit_where_the_headline_does_not_count_has_no_value():
    assert unit_value((GIOU,), unit(giou=Ratio(0, 0))) is None
    assert unit_value((GIOU,), unit()) is None
    assert unit_value((GIOU,), unit(giou=Mean(0.25))) == 0.25


def test_a_derived_value_of_one_unit_is_derived_from_its_parts():
    both = Metric("both", inputs=("giou", "ciou"), derived=lambda g, c: (g + c) / 2)
    member = unit(giou=Mean(1.0), ciou=Ratio(1, 4))
    assert unit_value((GIOU, Metric("ciou"), both), member) == 0.625


def test_a_corpus_has_no_value_for_one_unit():
    assert unit_value((Metric("cider", corpus=len),), unit(cider=Corpus(("a",)))) is None


def test_a_mask_of_one_pixel_stays_visible_in_a_thumbnail():
    mask = np.zeros((1000, 1000), dtype=bool)
    mask[500, 500] = True
    assert shrink(mask, (100, 100)).sum() == 1
    assert shrink(~mask, (100, 100)).all()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(masks=(Rle.full(2, 4),)), "mask of 100.0 % of the image"),
        (Answer(masks=(Rle.empty(2, 4),)), "empty mask"),
        (Answer(masks=(Rle.empty(2, 4), Rle.full(2, 4))), "masks in 1 of 2 frames"),
        (Answer(boxes=(Box(0, 0, 1, 1),)), "1 box"),
        (Answer(points=()), "0 points"),
        (Answer(count=3), "count 3"),
        (Answer(choice="B"), "choice B"),
        (Answer(number=2.5), "number 2.5"),
        (Answer(text="a cat", interval=Interval(1, 3.5)), "1.0 s to 3.5 s, “a cat”"),
        (Answer(no_target=True), "no target"),
        (Answer(box_track=(None, Box(0, 0, 1, 1))), "a box in 1 of 2 frames"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answers_in_words(answer, words):
    assert describe_answer(answer) == words

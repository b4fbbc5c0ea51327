"""What questions ask: kinds, letters, words and numbers without a bias."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from harness.world.families import draw_scene
from harness.world.qa import QA, ask_qa
from harness.world.scene import Scene

from .qa_reader import STILL, VIDEO

ASKED = {"qa": 600, "qa_video": 100, "arrivals": 100}


@cache
def scenes_of(family: str) -> tuple[Scene, ...]:
    number = ASKED[family]
    return tuple(draw_scene(4, family=family, split="val", index=index) for index in range(number))


def of_kinds() -> Iterator[QA]:
    """Two questions of each of many scenes."""
    for family in ASKED:
        yield from asked(family)


@cache
def asked(family: str) -> tuple[QA, ...]:
    return tuple(qa for scene in scenes_of(family) for qa in ask_qa(scene, number=2))


def test_every_kind_is_asked_and_none_much_more_than_others() -> None:
    often = Counter(qa.kind for qa in of_kinds() if qa.kind in STILL)
    assert set(often) == set(STILL) and max(often.values()) < 0.15 * often.total()
    assert min(often.values()) > 0.01 * often.total()
    moving = Counter(qa.kind for qa in of_kinds() if qa.kind in VIDEO)
    assert set(moving) == set(VIDEO) and max(moving.values()) < 0.3 * moving.total()


def is_even(often: Mapping[object, int], places: int) -> bool:
    """Whether numbers differ no more than by chance: chi-square below a quantile of 1 in 10,000."""
    total = sum(often.values())
    square = sum((often.get(place, 0) - total / places) ** 2 for place in range(places))
    return square * places / total < {2: 15.2, 3: 18.5, 4: 21.2, 5: 23.6}[places]


def test_no_letter_is_right_more_often() -> None:
    letters: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for qa in of_kinds():
        if not qa.is_number:
            letters[qa.kind, len(qa.options)]["ABCD".index(qa.letter)] += 1
    assert len(letters) > 15
    for (kind, places), often in letters.items():
        assert is_even(often, places), (kind, often)


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        ("relation", ("left", "right", "above", "below")),
        ("relation4", ("upper left", "upper right", "lower left", "lower right")),
        ("exists", ("yes", "no")),
        ("direction", ("left", "right", "up", "down", "it does not move")),
        ("end_relation", ("left", "right", "above", "below")),
    ],
)
def test_no_word_is_right_more_often(kind: str, answers: tuple[str, ...]) -> None:
    often = Counter(answers.index(str(qa.answer)) for qa in of_kinds() if qa.kind == kind)
    assert often.total() > 40 and is_even(often, len(answers)), often


@pytest.mark.parametrize("kind", ["size", "depth", "speed", "order"])
def test_neither_of_two_is_right_more_often_by_its_place_in_the_text(kind: str) -> None:
    first = Counter(int(qa.named[0][1] != qa.answer) for qa in of_kinds() if qa.kind == kind)
    assert first.total() > 20 and is_even(first, 2), first


def test_guessing_a_number_by_its_place_among_the_options_does_not_help() -> None:
    ranks: Counter[int] = Counter()
    for scene in scenes_of("qa")[:300]:
        (qa,) = ask_qa(scene, kinds=["count_choice"])
        numbers = sorted(map(int, qa.options))
        assert numbers == list(range(numbers[0], numbers[0] + 4)) and numbers[0] >= 0
        ranks[numbers.index(int(qa.answer))] += 1
    assert max(ranks.values()) < 0.4 * 300 and min(ranks[rank] for rank in range(4)) > 0.1 * 300


def test_staying_and_leaving_are_about_as_frequent() -> None:
    often: Counter[str] = Counter()
    for scene in (draw_scene(6, family="qa_video", split="val", index=k) for k in range(200)):
        for qa in ask_qa(scene, kinds=["leaves"]):
            often[qa.answer if qa.answer in ("yes", "no") else "first"] += 1
    assert often.total() > 40 and 0.5 < often["yes"] / often["no"] < 2

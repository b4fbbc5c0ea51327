"""Lessons of pocket hold what it is asked when it is evaluated."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from pocket_training.vlm import data_mixture
from pocket_training.vlm.batches import STEP, collate
from pocket_training.vlm.data_mixture import COUNTED, SEEN, STILLS, _absent_question, draw_half
from pocket_training.vlm.trainer import STAGES
from pocket_training.vlm.views import View

from harness.world.families import draw_scene, wanted_count
from harness.world.language import SIZE_WORDS
from harness.world.scene import HELD_OUT

BASE = STAGES["base"]


@pytest.fixture(scope="module")
def counted():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_mixture, "COUNTS", 60)
        return draw_half(replace(BASE, stills=0, images=0), 1.0, seed=0, step=4)["counts"]


def test_things_are_asked_for_in_vain_as_often_as_they_are_seen():
    chance = np.random.default_rng(0)
    views = [View(draw_scene(0, family="still", split="train", index=i)) for i in range(40)]
    output = [_absent_question(chance, view) for view in views for _ in range(200)]
    requested = Counter(question.text.removeprefix("the ") for question in output if question)
    ways = Counter(f"{colour} {shape}" for shape, colour, _ in SEEN)
    assert not set(SEEN) & HELD_OUT and set(ways.values()) == {1, 2}
    rare, common = (
        np.mean([requested[words] for words, number in ways.items() if number == ways_seen])
        for ways_seen in (1, 2)
    )
    assert 1.5 < common / rare < 2.7


def test_scenes_are_asked_for_the_count_that_they_were_made_for(counted):
    right = [
        len(lesson.targets) == wanted_count(drawn.view.scene)
        for drawn in counted
        for lesson in drawn.examples
    ]
    assert COUNTED < np.mean(right) < 0.9
    assert {wanted_count(drawn.view.scene) for drawn in counted} == set(range(2, 11))


def test_things_are_counted_by_their_size_too(counted):
    prompts = [lesson.text[: lesson.begin] for drawn in counted for lesson in drawn.examples]
    sized = [any(re.search(rf"\b{word}\b", one) for word in SIZE_WORDS.values()) for one in prompts]
    assert 0.1 < np.mean(sized) < 0.5


def test_stills_are_of_every_family_that_is_asked_about():
    both = draw_half(replace(BASE, stills=40, images=20), 1.0, seed=0, step=1)["stills"]
    drawn, shown = both[:40], both[40:]
    assert {one.view.scene.family for one in drawn} == set(STILLS)
    assert {one.view.scene.split for one in drawn} == {"train"}
    assert {one.view.scene.family for one in shown} == {"referring", "still", "count"}
    assert not any(one.examples for one in shown)


def test_batches_come_in_few_lengths(counted):
    lengths = {collate([drawn], intervals=[1])["tokens"].shape[1] for drawn in counted[:20]}
    assert len(lengths) > 1 and not any(length % STEP for length in lengths)

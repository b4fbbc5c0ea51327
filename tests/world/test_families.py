from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.world.families import IMAGE_SIZES, draw_scene, is_clear
from harness.world.qa_video import visible_frames
from harness.world.questions import ask_kind, ask_questions
from harness.world.raster import has_holes, is_inside, is_outside, visible_masks, whole_areas
from harness.world.referring import names
from harness.world.scene import (
    COLOURS,
    COMBINATIONS,
    HELD_OUT,
    LEVELS,
    SHAPES,
    SIZES,
    Background,
    Combination,
    Scene,
    Split,
    Thing,
    is_held_out,
)
from harness.world.shapes import World, make_world

SEEDS = st.integers(0, 2**40)


def combinations(world: World, split: Split) -> set[Combination]:
    return {
        thing.combination
        for (_, each), examples in world.examples.items()
        if each == split
        for example in examples
        for thing in example.scene.things
    }


def test_there_are_seven_shapes_and_eight_colours_or_more() -> None:
    assert len(SHAPES) >= 7 and len(COLOURS) >= 8 and len(SIZES) == 3
    assert len(set(COLOURS.values())) == len(COLOURS)
    assert len(COMBINATIONS) == len(SHAPES) * len(COLOURS) * len(SIZES)


def test_the_rule_holds_out_three_eighths() -> None:
    assert sum(map(is_held_out, COMBINATIONS)) == len(HELD_OUT) == 72
    assert is_held_out(Combination("circle", "red", "small"))
    assert not is_held_out(Combination("circle", "green", "small"))


def test_every_shape_with_every_colour_has_a_size_held_out_and_one_not() -> None:
    for shape in SHAPES:
        for colour in COLOURS:
            held = {is_held_out(Combination(shape, colour, size)) for size in SIZES}
            assert held == {True, False}


@pytest.mark.parametrize(("seed", "size"), [(0, 1), (1, 1), (0, 4), (1, 4), (1, 16)])
def test_val_and_test_hold_three_in_ten_combinations_that_train_lacks(seed: int, size: int) -> None:
    world = make_world(seed=seed, size=size)
    train = combinations(world, "train")
    assert not train & HELD_OUT
    for split in ("val", "test"):
        found = combinations(world, split)
        assert len(found - train) >= 0.3 * len(found)
        assert len(found & HELD_OUT) >= 0.3 * len(found)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from(["still", "video", "count", "qa", "referring", "arrivals"]))
def test_no_scene_of_train_has_a_combination_that_is_held_out(seed: int, family: str) -> None:
    for index in range(4):
        scene = draw_scene(seed, family=family, split="train", index=index)
        assert not {thing.combination for thing in scene.things} & HELD_OUT


def test_a_scene_does_not_depend_on_how_many_are_made() -> None:
    short, long = make_world(seed=8, size=3), make_world(seed=8, size=7)
    for family, split in short.examples:
        scenes = short.scenes(family, split)
        assert scenes == long.scenes(family, split)[: len(scenes)]
        last = scenes[-1]
        assert last == draw_scene(8, family=family, split=split, index=last.index)


def test_seeds_families_and_splits_give_different_scenes() -> None:
    scenes = [
        draw_scene(seed, family=family, split=split, index=index)
        for seed in (1, 2)
        for family in ("still", "count", "countbench")
        for split in ("train", "val", "test")
        for index in (0, 1)
    ]
    assert len({scene.things for scene in scenes}) == len(scenes)
    assert len({(scene.seed, scene.id) for scene in scenes}) == len(scenes)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from(["val", "train"]))
def test_in_stills_most_of_every_thing_is_visible_without_holes(seed: int, split: Split) -> None:
    scene = draw_scene(seed, family="still", split=split, index=1)
    assert (scene.width, scene.height) in IMAGE_SIZES
    assert 3 <= len(scene.things) <= 7
    assert sorted(thing.depth for thing in scene.things) == list(range(len(scene.things)))
    whole = whole_areas(scene)
    for index, mask in enumerate(visible_masks(scene)):
        assert is_inside(scene, scene.things[index], 0)
        assert mask.sum() >= 0.6 * whole[index]
        assert not has_holes(mask)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_in_videos_every_thing_is_well_seen_half_of_the_time(seed: int) -> None:
    scene = draw_scene(seed, family="video", split="val", index=0)
    assert scene.frames == 8
    whole = whole_areas(scene)
    masks = np.stack([visible_masks(scene, frame) for frame in range(scene.frames)])
    assert ((masks.sum((2, 3)) >= 0.6 * whole).sum(0) >= 4).all()
    assert not any(has_holes(mask) for frame in masks for mask in frame)
    for index, thing in enumerate(scene.things):
        gone = [is_outside(scene, thing, frame) for frame in range(scene.frames)]
        assert (~masks[:, index].any((1, 2))).tolist() == gone


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_what_is_in_the_image_at_both_ends_never_left_it(seed: int) -> None:
    scene = draw_scene(seed, family="video", split="train", index=2)
    for thing in scene.things:
        inside = [is_inside(scene, thing, frame) for frame in range(scene.frames)]
        changes = sum(first != second for first, second in pairwise(inside))
        assert any(inside) and changes <= 1


def test_a_scene_is_refused_where_a_thing_is_hidden_or_pierced() -> None:
    large = Thing(shape="square", colour="red", size="large", x=80, y=80, depth=1)
    small = Thing(shape="circle", colour="blue", size="small", x=140, y=80, depth=0)
    scene = Scene(
        seed=0,
        family="still",
        split="val",
        index=0,
        width=168,
        height=168,
        background=Background("plain", 0),
        things=(large, small),
    )
    assert is_clear(scene)
    assert not is_clear(replace(scene, things=(large, replace(small, x=80))))
    behind = (replace(large, depth=0), replace(small, x=95, depth=1))
    assert not is_clear(replace(scene, things=behind))
    behind_once = (replace(large, depth=0), replace(small, x=20, depth=1, dx=10))
    assert is_clear(replace(scene, things=behind_once, frames=5))
    assert not is_clear(replace(scene, things=behind_once, frames=6))
    at_the_edge = (large, replace(small, x=80 - 21))
    assert is_clear(replace(scene, things=at_the_edge))


def test_some_things_leave_some_enter_some_stand_still_and_some_are_covered() -> None:
    found: Counter[str] = Counter()
    for index in range(40):
        scene = draw_scene(6, family="video", split="train", index=index)
        for thing in scene.things:
            found["leaves"] += is_outside(scene, thing, 7)
            found["enters"] += is_outside(scene, thing, 0)
            found["rests"] += not thing.is_moving
            found["aslant"] += bool(thing.dx and thing.dy)
        still = draw_scene(6, family="still", split="train", index=index)
        found["covered"] += visible_masks(still).sum() < whole_areas(still).sum()
    assert all(found[what] >= 5 for what in ("leaves", "enters", "rests", "aslant", "covered"))


# Families with levels

LEVELLED = ("qa", "referring", "qa_video", "arrivals")
THINGS = {
    "qa": {"easy": {2, 3}, "medium": {4, 5}, "hard": {6, 7}},
    "qa_video": {"easy": {2}, "medium": {3}, "hard": {4}},
}
GROUNDS = {
    "easy": {"plain"},
    "medium": {"plain", "noisy", "textured"},
    "hard": {"noisy", "textured"},
}


def test_scenes_without_levels_are_medium() -> None:
    for family in ("still", "video", "count", "countbench"):
        assert draw_scene(0, family=family, split="test", index=5).level == "medium"


@pytest.mark.parametrize("family", LEVELLED)
def test_levels_are_drawn_evenly_and_set_the_number_of_things_and_the_background(
    family: str,
) -> None:
    scenes = [draw_scene(3, family=family, split="test", index=index) for index in range(60)]
    assert Counter(scene.level for scene in scenes) == dict.fromkeys(LEVELS, 20)
    numbers = THINGS["qa_video" if scenes[0].frames > 1 else "qa"]
    for level in LEVELS:
        there = [scene for scene in scenes if scene.level == level]
        assert {len(scene.things) for scene in there} == numbers[level]
        assert {scene.background.kind for scene in there} == GROUNDS[level]
        covered = [visible_masks(one).sum() < whole_areas(one).sum() for one in there]
        if family in ("qa", "referring"):
            low, high = {"easy": (0, 0), "medium": (1, 19), "hard": (16, 20)}[level]
            assert low <= sum(covered) <= high


@pytest.mark.parametrize("family", LEVELLED)
def test_half_of_the_things_of_unseen_splits_are_held_out(family: str) -> None:
    things = [
        thing.combination
        for split in ("val", "test")
        for index in range(30)
        for thing in draw_scene(5, family=family, split=split, index=index).things  # type: ignore[arg-type]
    ]
    assert 0.4 < sum(each in HELD_OUT for each in things) / len(things) < 0.75


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from(["qa", "referring", "qa_video"]))
def test_things_of_levelled_scenes_can_be_seen_and_named(seed: int, family: str) -> None:
    scene = draw_scene(seed, family=family, split="val", index=seed % 3)
    assert scene.frames == (8 if family == "qa_video" else 1)
    assert is_clear(scene)
    named = names(scene)
    assert len(named) >= min(3, len(scene.things))
    if scene.frames > 1:
        assert len(named) == len(scene.things)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_arrivals_come_at_clearly_different_times_and_stay_to_be_seen(seed: int) -> None:
    scene = draw_scene(seed, family="arrivals", split="train", index=seed % 6)
    assert scene.frames == 8 and is_clear(scene, well_seen=2)
    assert len(names(scene)) == len(scene.things)
    first = [visible_frames(scene, index)[0] for index in range(len(scene.things))]
    coming = sorted(frame for frame in first if frame)
    assert 2 <= len(coming) <= 3 and all(after - before >= 2 for before, after in pairwise(coming))
    for thing, frame in zip(scene.things, first, strict=True):
        assert is_inside(scene, thing, 7 if frame else 0)


def test_some_arrivals_find_something_there() -> None:
    scenes = [draw_scene(2, family="arrivals", split="val", index=index) for index in range(30)]
    waiting = [
        sum(visible_frames(scene, i)[0] == 0 for i in range(len(scene.things))) for scene in scenes
    ]
    assert 5 < sum(number > 0 for number in waiting) < 28


def test_a_third_of_referring_scenes_is_asked_for_one_for_several_and_to_reason() -> None:
    scenes = [draw_scene(4, family="referring", split="val", index=index) for index in range(60)]
    found = Counter(ask_kind(ask_questions(scene)[0]) for scene in scenes)
    assert found == {"single": 20, "several": 20, "reasoning": 20}
    for scene in scenes[:9]:
        assert len({question.text for question in ask_questions(scene, number=4)}) == 4

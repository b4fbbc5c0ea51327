from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.world.families import PICTURE_SIZES, draw_scene, is_clear
from harness.world.raster import has_holes, is_inside, is_outside, visible_masks, whole_areas
from harness.world.scene import (
    COLOURS,
    COMBINATIONS,
    HELD_OUT,
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


@pytest.mark.parametrize("size", [1, 4, 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_val_and_test_hold_three_in_ten_combinations_that_train_lacks(seed: int, size: int) -> None:
    world = make_world(seed=seed, size=size)
    train = combinations(world, "train")
    assert not train & HELD_OUT
    for split in ("val", "test"):
        found = combinations(world, split)
        assert len(found - train) >= 0.3 * len(found)
        assert len(found & HELD_OUT) >= 0.3 * len(found)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from(["still", "video", "count"]))
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
    assert (scene.width, scene.height) in PICTURE_SIZES
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
def test_what_is_in_the_picture_at_both_ends_never_left_it(seed: int) -> None:
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
            found["rests"] += not thing.moves
            found["aslant"] += bool(thing.dx and thing.dy)
        still = draw_scene(6, family="still", split="train", index=index)
        found["covered"] += visible_masks(still).sum() < whole_areas(still).sum()
    assert all(found[what] >= 5 for what in ("leaves", "enters", "rests", "aslant", "covered"))

"""Families of scenes, drawn from a seed: stills, videos and pictures to count in.

A candidate that breaks a rule is thrown away and the next attempt drawn from its own stream, so
that which scene comes out depends on nothing but seed, family, split and index.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from harness.world.draws import Draws
from harness.world.language import Noun
from harness.world.placing import Path, draw_path, place_at_rest
from harness.world.raster import has_holes, is_outside, visible_masks, whole_areas
from harness.world.scene import (
    BACKGROUNDS,
    COLOURS,
    COMBINATIONS,
    HELD_OUT,
    RADIUS,
    SHAPES,
    Background,
    Combination,
    Scene,
    Size,
    Split,
    Thing,
)

PICTURE_SIZES = ((168, 168), (224, 168), (256, 192), (160, 224))  # (width, height) in pixels
VIDEO_FRAMES = 8
FEWEST, MOST = 2, 10
"""Counts that are asked for, as in the counting benchmarks."""

Compose: TypeAlias = Callable[[Draws, Scene], tuple[Thing, ...] | None]
"""Draws the things of an empty scene, or None where they found no room."""


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of scene."""

    compose: Compose
    frames: int = 1


def draw_scene(seed: int, *, family: str, split: Split, index: int) -> Scene:
    """The scene with this index: the same whatever else is drawn, and wherever."""
    kind = FAMILIES[family]
    for attempt in count():
        draws = Draws(seed, family, split, index, attempt)
        width, height = draws.choice(PICTURE_SIZES)
        empty = Scene(
            seed=seed,
            family=family,
            split=split,
            index=index,
            width=width,
            height=height,
            background=Background(draws.choice(BACKGROUNDS), draws.below(2**32)),
            things=(),
            frames=kind.frames,
        )
        things = kind.compose(draws, empty)
        if things is not None and is_clear(scene := replace(empty, things=things)):
            return scene
    raise AssertionError("unreachable: attempts do not end")


def is_clear(scene: Scene) -> bool:
    """Whether every thing can be seen well enough to be asked about.

    In at least half of the frames, 60 % or more of each thing is visible. In every frame something
    is visible of each thing that is not outside, so that what goes out of view has left; and no
    visible part encloses a hole, so that outer contours tell each mask exactly.
    """
    whole = whole_areas(scene)
    well_seen = np.zeros(len(scene.things), dtype=np.int64)
    for frame in range(scene.frames):
        masks = visible_masks(scene, frame)
        areas = masks.sum((1, 2))
        gone = [is_outside(scene, thing, frame) for thing in scene.things]
        if not np.array_equal(areas == 0, gone) or any(map(has_holes, masks)):
            return False
        well_seen += areas * 5 >= whole * 3
    return bool((well_seen * 2 >= scene.frames).all())


def wanted_count(scene: Scene) -> int:
    """How many things a counting scene asks for: each of 2 to 10 once in nine scenes."""
    block, place = divmod(scene.index, MOST - FEWEST + 1)
    order = Draws(scene.seed, scene.family, scene.split, "counts", block)
    return order.shuffled(range(FEWEST, MOST + 1))[place]


def _still(draws: Draws, empty: Scene) -> tuple[Thing, ...] | None:
    combinations = _mixed(draws, empty.split, draws.between(3, 7))
    return _resting(draws, empty, combinations, crowded=draws.chance(1, 2))


def _video(draws: Draws, empty: Scene) -> tuple[Thing, ...] | None:
    combinations = _mixed(draws, empty.split, draws.between(3, 5))
    paths = [(each, draw_path(draws, empty, each)) for each in combinations]
    return _with_depths(draws, paths)


def _crowd(draws: Draws, empty: Scene) -> tuple[Thing, ...] | None:
    """As many things of one noun as are wanted, and others that the noun cannot mean."""
    noun = draws.choice(
        (
            Noun(draws.choice(SHAPES), draws.choice(tuple(COLOURS))),
            Noun(draws.choice(SHAPES)),
            Noun(None, draws.choice(tuple(COLOURS))),
        )
    )
    wanted = wanted_count(empty)
    counted = [c for c in COMBINATIONS if noun.fits(c)]
    others = [c for c in COMBINATIONS if not noun.could_fit(c)]
    related = [c for c in others if c.shape == noun.shape or c.colour == noun.colour] or others
    pools = [counted] * wanted
    pools += [draws.choice((others, related)) for _ in range(draws.between(1, 5))]
    largest: Size = "medium" if wanted > 5 else "large"
    combinations = [
        _combination(draws, empty.split, place, pool, largest=largest)
        for place, pool in enumerate(pools)
    ]
    return _resting(draws, empty, draws.shuffled(combinations), crowded=False)


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "still": Family(_still),
        "video": Family(_video, VIDEO_FRAMES),
        "count": Family(_crowd),
        "countbench": Family(_crowd),
    }
)


def _combination(
    draws: Draws,
    split: Split,
    place: int,
    options: Sequence[Combination],
    *,
    largest: Size = "large",
) -> Combination:
    """One of the options: never a held-out one in `train`, every second time one elsewhere.

    Sizes above `largest` are taken only where the options allow no other.
    """
    held = split != "train" and place % 2 == 0
    allowed = [option for option in options if (option in HELD_OUT) == held]
    fitting = [option for option in allowed if RADIUS[option.size] <= RADIUS[largest]]
    return draws.choice(fitting or allowed)


def _mixed(draws: Draws, split: Split, number: int) -> list[Combination]:
    """Combinations that share a shape or a colour with an earlier one more often than by chance.

    Without shared attributes, one word would be enough to single anything out.
    """
    chosen: list[Combination] = []
    for place in range(number):
        noun = Noun()
        if chosen and draws.chance(3, 5):
            model = draws.choice(chosen)
            noun = draws.choice((Noun(model.shape), Noun(None, model.colour)))
        options = [option for option in COMBINATIONS if noun.fits(option)]
        chosen.append(_combination(draws, split, place, options))
    return chosen


def _resting(
    draws: Draws, empty: Scene, combinations: Sequence[Combination], *, crowded: bool
) -> tuple[Thing, ...] | None:
    paths: list[tuple[Combination, Path]] = []
    for combination in combinations:
        path = place_at_rest(draws, empty, combination, paths, crowded=crowded)
        if path is None:
            return None
        paths.append((combination, path))
    return _with_depths(draws, paths)


def _with_depths(draws: Draws, paths: Sequence[tuple[Combination, Path]]) -> tuple[Thing, ...]:
    depths = draws.shuffled(range(len(paths)))
    return tuple(
        Thing(**combination._asdict(), **path._asdict(), depth=depth)
        for (combination, path), depth in zip(paths, depths, strict=True)
    )

"""Families of scenes, drawn from a seed: stills, videos and images to count in.

A candidate that breaks a rule is thrown away and the next attempt drawn from its own stream, so
that which scene comes out depends on nothing but seed, family, split and index.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType

import numpy as np

from harness.world import levelled
from harness.world.composing import Compose, combination, mix_combinations, resting, with_depths
from harness.world.draws import Draws
from harness.world.language import Noun
from harness.world.placing import draw_path
from harness.world.raster import has_holes, parts_in_image, whole_areas
from harness.world.scene import (
    BACKGROUNDS,
    COLOURS,
    COMBINATIONS,
    LEVELS,
    SHAPES,
    Background,
    BackgroundKind,
    Level,
    Scene,
    Size,
    Split,
    Thing,
)

IMAGE_SIZES = ((168, 168), (224, 168), (256, 192), (160, 224))  # (width, height) in pixels
VIDEO_FRAMES = 8
BACKGROUNDS_AT: Mapping[Level, tuple[BackgroundKind, ...]] = MappingProxyType(
    {"easy": ("plain",), "medium": BACKGROUNDS, "hard": ("noisy", "textured")}
)
MIN_THINGS, MAX_THINGS = 2, 10
"""Range of the counts in questions, as in the counting benchmarks."""


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of scene."""

    compose: Compose
    frames: int = 1
    has_levels: bool = False
    """True if easy, medium and hard scenes are drawn; otherwise all are `medium`."""
    well_seen: int | None = None
    """Number of frames in which most of each thing is visible; None for half of them."""


def draw_scene(seed: int, *, family: str, split: Split, index: int) -> Scene:
    """Draw the scene with this index: it does not depend on other draws or on the machine."""
    kind = FAMILIES[family]
    level = wanted_level(seed, family, split, index) if kind.has_levels else "medium"
    for attempt in count():
        draws = Draws(seed, family, split, index, attempt)
        width, height = draws.choice(IMAGE_SIZES)
        backgrounds = BACKGROUNDS_AT[level] if kind.has_levels else BACKGROUNDS
        empty = Scene(
            seed=seed,
            family=family,
            split=split,
            index=index,
            width=width,
            height=height,
            background=Background(draws.choice(backgrounds), draws.integer_below(2**32)),
            things=(),
            frames=kind.frames,
            level=level,
        )
        things = kind.compose(draws, empty)
        if things is not None and is_clear(
            scene := replace(empty, things=things), well_seen=kind.well_seen
        ):
            return scene
    raise AssertionError("unreachable: attempts do not end")


def is_clear(scene: Scene, *, well_seen: int | None = None) -> bool:
    """Return True if every thing is visible enough to be the subject of a question.

    In at least half of the frames (or `well_seen` of them), 60 % or more of each thing is visible.
    In every frame something is visible of each thing that is not outside, so that what goes out of
    view has left; and no visible part encloses a hole, so that outer contours tell each mask
    exactly.
    """
    whole = whole_areas(scene)
    often = np.zeros(len(scene.things), dtype=np.int64)
    for frame in range(scene.frames):
        for index, (drawn, visible) in enumerate(parts_in_image(scene, frame)):
            all_of_it, area = np.count_nonzero(drawn), np.count_nonzero(visible)
            if all_of_it and not area:
                return False
            # Shapes have no holes, nor has what the image's edge leaves of them.
            if area < all_of_it and has_holes(visible):
                return False
            often[index] += area * 5 >= whole[index] * 3
    minimum = (scene.frames + 1) // 2 if well_seen is None else well_seen
    return bool((often >= minimum).all())


def wanted_count(scene: Scene) -> int:
    """Return the number of things of a counting scene: each of 2 to 10 once in nine scenes."""
    block, place = divmod(scene.index, MAX_THINGS - MIN_THINGS + 1)
    order = Draws(scene.seed, scene.family, scene.split, "counts", block)
    return order.shuffle(range(MIN_THINGS, MAX_THINGS + 1))[place]


def wanted_level(seed: int, family: str, split: Split, index: int) -> Level:
    """Return the level of a scene: each of the three once in three scenes.

    It is drawn before anything else, so that no level is rarer because its scenes are harder to
    lay out.
    """
    block, place = divmod(index, len(LEVELS))
    return Draws(seed, family, split, "levels", block).shuffle(LEVELS)[place]


def _still(draws: Draws, empty: Scene) -> tuple[Thing, ...] | None:
    combinations = mix_combinations(draws, empty.split, draws.integer_between(3, 7))
    return resting(draws, empty, combinations, crowded=draws.chance(1, 2))


def _video(draws: Draws, empty: Scene) -> tuple[Thing, ...] | None:
    combinations = mix_combinations(draws, empty.split, draws.integer_between(3, 5))
    paths = [(attributes, draw_path(draws, empty, attributes)) for attributes in combinations]
    return with_depths(draws, paths)


def _crowd(draws: Draws, empty: Scene) -> tuple[Thing, ...] | None:
    """Draw the wanted number of things of one noun, and others that the noun cannot name."""
    noun = draws.choice(
        (
            Noun(draws.choice(SHAPES), draws.choice(tuple(COLOURS))),
            Noun(draws.choice(SHAPES)),
            Noun(None, draws.choice(tuple(COLOURS))),
        )
    )
    wanted = wanted_count(empty)
    counted = [c for c in COMBINATIONS if noun.matches(c)]
    others = [c for c in COMBINATIONS if not noun.could_fit(c)]
    related = [c for c in others if c.shape == noun.shape or c.colour == noun.colour] or others
    pools = [counted] * wanted
    pools += [draws.choice((others, related)) for _ in range(draws.integer_between(1, 5))]
    largest: Size = "medium" if wanted > 5 else "large"
    combinations = [
        combination(draws, empty.split, place, pool, largest=largest)
        for place, pool in enumerate(pools)
    ]
    return resting(draws, empty, draws.shuffle(combinations), crowded=False)


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "still": Family(_still),
        "video": Family(_video, VIDEO_FRAMES),
        "count": Family(_crowd),
        "countbench": Family(_crowd),
        "qa": Family(levelled.still, has_levels=True),
        "referring": Family(levelled.referring, has_levels=True),
        "qa_video": Family(levelled.moving, VIDEO_FRAMES, has_levels=True),
        "arrivals": Family(levelled.arriving, VIDEO_FRAMES, has_levels=True, well_seen=2),
    }
)

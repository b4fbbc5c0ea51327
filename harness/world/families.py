"""Families of scenes: `draw_scene` draws stills, videos and images for counting from a seed.

A candidate that breaks a rule is discarded, and the next attempt is drawn from its own stream of
random numbers, so that a scene depends only on seed, family, split and index.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType

import numpy as np

from harness.world import levelled
from harness.world.composing import (
    Compose,
    draw_combination,
    mix_combinations,
    things_at_rest,
    with_depths,
)
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
    """Least number of frames in which 60 % of each thing are visible; None: half of the frames."""


def draw_scene(seed: int, *, family: str, split: Split, index: int) -> Scene:
    """Draw the scene with this index: it does not depend on other draws or on the machine."""
    settings = FAMILIES[family]
    level = wanted_level(seed, family, split, index) if settings.has_levels else "medium"
    for attempt in count():
        draws = Draws(seed, family, split, index, attempt)
        width, height = draws.choice(IMAGE_SIZES)
        backgrounds = BACKGROUNDS_AT[level] if settings.has_levels else BACKGROUNDS
        empty = Scene(
            seed=seed,
            family=family,
            split=split,
            index=index,
            width=width,
            height=height,
            background=Background(draws.choice(backgrounds), draws.integer_below(2**32)),
            things=(),
            frames=settings.frames,
            level=level,
        )
        things = settings.compose(draws, empty)
        if things is not None and is_clear(
            scene := replace(empty, things=things), well_seen=settings.well_seen
        ):
            return scene
    raise AssertionError("unreachable: attempts do not end")


def is_clear(scene: Scene, *, well_seen: int | None = None) -> bool:
    """Return True if every thing is visible enough to be the subject of a question.

    In at least half of the frames (or `well_seen` of them) 60 % or more of each thing is visible.
    In every frame a part of each thing in the image is visible, so that a thing that is not visible
    has left the image. No visible part has a hole, so that outer contours represent each mask
    exactly.
    """
    full_areas = whole_areas(scene)
    n_seen = np.zeros(len(scene.things), dtype=np.int64)
    for frame in range(scene.frames):
        for index, (full_mask, visible) in enumerate(parts_in_image(scene, frame)):
            full_area, area = np.count_nonzero(full_mask), np.count_nonzero(visible)
            if full_area and not area:
                return False
            # Only a thing that is partly covered can have a hole.
            if area < full_area and has_holes(visible):
                return False
            n_seen[index] += area * 5 >= full_areas[index] * 3
    minimum = (scene.frames + 1) // 2 if well_seen is None else well_seen
    return bool((n_seen >= minimum).all())


def wanted_count(scene: Scene) -> int:
    """Return how many things of a scene are counted: each of 2 to 10 once in nine scenes."""
    round_, index = divmod(scene.index, MAX_THINGS - MIN_THINGS + 1)
    order = Draws(scene.seed, scene.family, scene.split, "counts", round_)
    return order.shuffle(range(MIN_THINGS, MAX_THINGS + 1))[index]


def wanted_level(seed: int, family: str, split: Split, index: int) -> Level:
    """Return the level of a scene: each of the three once in three scenes.

    It is drawn before anything else, so that no level is rarer because its scenes are harder to
    lay out.
    """
    round_, index_in_block = divmod(index, len(LEVELS))
    return Draws(seed, family, split, "levels", round_).shuffle(LEVELS)[index_in_block]


def _still(draws: Draws, empty: Scene) -> tuple[Thing, ...] | None:
    combinations = mix_combinations(draws, empty.split, draws.integer_between(3, 7))
    return things_at_rest(draws, empty, combinations, crowded=draws.chance(1, 2))


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
    n_counted = wanted_count(empty)
    counted = [c for c in COMBINATIONS if noun.matches(c)]
    others = [c for c in COMBINATIONS if not noun.could_fit(c)]
    related = [c for c in others if c.shape == noun.shape or c.colour == noun.colour] or others
    pools = [counted] * n_counted
    pools += [draws.choice((others, related)) for _ in range(draws.integer_between(1, 5))]
    largest: Size = "medium" if n_counted > 5 else "large"
    combinations = [
        draw_combination(draws, empty.split, index, pool, largest=largest)
        for index, pool in enumerate(pools)
    ]
    return things_at_rest(draws, empty, draws.shuffle(combinations), crowded=False)


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

"""Composition of a scene's things, for `families`: attributes, places at rest, order of depth."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

from harness.world.draws import Draws
from harness.world.language import Noun
from harness.world.placing import Path, place_at_rest
from harness.world.scene import (
    COMBINATIONS,
    HELD_OUT,
    RADIUS,
    Combination,
    Scene,
    Size,
    Split,
    Thing,
)

Compose: TypeAlias = Callable[[Draws, Scene], tuple[Thing, ...] | None]
"""Draws the things of an empty scene; None: there was no space, and another attempt is made."""


def draw_combination(
    draws: Draws,
    split: Split,
    index: int,
    options: Sequence[Combination],
    *,
    largest: Size = "large",
) -> Combination:
    """Draw one of the options that the split allows.

    `train` never has held-out combinations. In other splits, things of even `index` have only
    held-out ones, and things of odd index only others. Sizes above `largest` are drawn only if no
    other option is left.
    """
    is_held_out = split != "train" and index % 2 == 0
    allowed = [option for option in options if (option in HELD_OUT) == is_held_out]
    fitting = [option for option in allowed if RADIUS[option.size] <= RADIUS[largest]]
    return draws.choice(fitting or allowed)


def mix_combinations(draws: Draws, split: Split, number: int) -> list[Combination]:
    """Draw combinations, of which many share a shape or a colour with an earlier one.

    Without shared attributes, one word would be enough to name any thing.
    """
    chosen: list[Combination] = []
    for index in range(number):
        noun = Noun()
        if chosen and draws.chance(3, 5):
            model = draws.choice(chosen)
            noun = draws.choice((Noun(model.shape), Noun(None, model.colour)))
        chosen.append(draw_combination(draws, split, index, _named_by(noun)))
    return chosen


@cache
def _named_by(noun: Noun) -> tuple[Combination, ...]:
    return tuple(filter(noun.matches, COMBINATIONS))


def things_at_rest(
    draws: Draws, empty: Scene, combinations: Sequence[Combination], *, crowded: bool
) -> tuple[Thing, ...] | None:
    """Return things with these attributes at rest; None if there was no space.

    `crowded` is passed on to `place_at_rest`.
    """
    paths: list[tuple[Combination, Path]] = []
    for attributes in combinations:
        path = place_at_rest(draws, empty, attributes, paths, crowded=crowded)
        if path is None:
            return None
        paths.append((attributes, path))
    return with_depths(draws, paths)


def with_depths(draws: Draws, paths: Sequence[tuple[Combination, Path]]) -> tuple[Thing, ...]:
    """Return things on their paths, with a random order of depth."""
    depths = draws.shuffle(range(len(paths)))
    return tuple(
        Thing(**attributes._asdict(), **path._asdict(), depth=depth)
        for (attributes, path), depth in zip(paths, depths, strict=True)
    )

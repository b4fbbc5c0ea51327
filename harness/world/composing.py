"""Parts of scenes for families: things, places, and order of depth."""

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
"""Function that draws the things of an empty scene, or None where it found no space."""


def combination(
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


def mix_combinations(draws: Draws, split: Split, number: int) -> list[Combination]:
    """Combinations that share a shape or a colour with an earlier one more often than by chance.

    Without shared attributes, one word would be enough to single anything out.
    """
    chosen: list[Combination] = []
    for place in range(number):
        noun = Noun()
        if chosen and draws.chance(3, 5):
            model = draws.choice(chosen)
            noun = draws.choice((Noun(model.shape), Noun(None, model.colour)))
        chosen.append(combination(draws, split, place, _named_by(noun)))
    return chosen


@cache
def _named_by(noun: Noun) -> tuple[Combination, ...]:
    return tuple(filter(noun.matches, COMBINATIONS))


def resting(
    draws: Draws, empty: Scene, combinations: Sequence[Combination], *, crowded: bool
) -> tuple[Thing, ...] | None:
    """Return things at rest, separated by `place_at_rest`; None where there was no space."""
    paths: list[tuple[Combination, Path]] = []
    for attributes in combinations:
        path = place_at_rest(draws, empty, attributes, paths, crowded=crowded)
        if path is None:
            return None
        paths.append((attributes, path))
    return with_depths(draws, paths)


def with_depths(draws: Draws, paths: Sequence[tuple[Combination, Path]]) -> tuple[Thing, ...]:
    """Things on their paths, in a drawn order from the viewer."""
    depths = draws.shuffle(range(len(paths)))
    return tuple(
        Thing(**attributes._asdict(), **path._asdict(), depth=depth)
        for (attributes, path), depth in zip(paths, depths, strict=True)
    )

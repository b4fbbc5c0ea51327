"""Random part of a training set, drawn by a seed: the same whatever else is read."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from harness.errors import UsageError
from harness.world.draws import Draws

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RandomSubset:
    """`number` of the existing samples, uniformly without replacement; all of them for None."""

    number: int | None
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.number is not None and self.number < 1) or self.seed < 0:
            raise UsageError(
                "sample of a training set",
                expected="sample ≥ 1 and seed ≥ 0",
                found=f"{self.number} and {self.seed}",
            )

    def places(self, total: int, name: str) -> frozenset[int]:
        """Return the places, of `total`, that belong to the sample of the set of this name."""
        if self.number is None or self.number >= total:
            return frozenset(range(total))
        shuffled = Draws(self.seed, "training", name).shuffle(range(total))
        return frozenset(shuffled[: self.number])


def at_places(items: Iterable[T], places: frozenset[int]) -> Iterator[T]:
    """The items at these places, in order."""
    return (item for place, item in enumerate(items) if place in places)

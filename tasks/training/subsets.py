"""Random part of a training set, drawn by a seed: the same whatever else is read."""

from collections.abc import Callable, Iterable, Iterator
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

    def choose(self, read: Callable[[], Iterable[T]], name: str) -> Iterator[T]:
        """The items that belong to the sample of the set of this name, in order.

        `read` is called for each pass over all items, of which there are two if some are left out.
        """
        if self.number is None:
            return iter(read())
        every = range(sum(1 for _ in read()))
        kept = frozenset(Draws(self.seed, "training", name).shuffle(every)[: self.number])
        return (item for place, item in enumerate(read()) if place in kept)

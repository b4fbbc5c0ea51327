"""Draw a random part of a training set, which depends on a seed and the set's name alone."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from harness.errors import UsageError
from harness.world.draws import Draws

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RandomSubset:
    """`number` of a set's samples, drawn uniformly without replacement; all of them for None."""

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
        """Return the drawn items of the set of this name, in their order.

        `read` is called for each pass over all items: once to count them, once to yield them.
        """
        if self.number is None:
            return iter(read())
        positions = range(sum(1 for _ in read()))
        drawn = frozenset(Draws(self.seed, "training", name).shuffle(positions)[: self.number])
        return (item for position, item in enumerate(read()) if position in drawn)

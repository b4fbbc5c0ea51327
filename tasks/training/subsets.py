"""Draw a random subset of a training set, for tasks with `sample=` and `seed=`."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from harness.errors import UsageError
from harness.world.draws import Draws

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RandomSubset:
    """Choice of `number` samples of a set, uniformly without replacement; None takes all.

    The choice depends on the seed, the set's name and its number of samples alone.
    """

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
        """Return the drawn items of the set called `name`, in their order.

        `read` returns all items; it is called twice, to count them and to yield them, so that they
        need not be in memory.
        """
        if self.number is None:
            return iter(read())
        positions = range(sum(1 for _ in read()))
        drawn = frozenset(Draws(self.seed, "training", name).shuffle(positions)[: self.number])
        return (item for position, item in enumerate(read()) if position in drawn)

"""Which prompts a round takes: a pure function of seed and round, so that a resumed training needs
to know nothing but its step, and no sample is left out because it does not fill a round.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


def drawn(seed: int, samples: int, prompts: int, number: int) -> list[int]:
    """The samples of round `number`: the next `prompts` of one permutation after another.

    >>> sorted(drawn(0, 4, 2, 0) + drawn(0, 4, 2, 1))
    [0, 1, 2, 3]
    """
    places = range(number * prompts, (number + 1) * prompts)
    orders = {place // samples: None for place in places}
    permuted = {epoch: _permutation(seed, samples, epoch) for epoch in orders}
    return [int(permuted[place // samples][place % samples]) for place in places]


def _permutation(seed: int, samples: int, epoch: int) -> np.ndarray:
    key = np.array([seed % 2**64, epoch], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).permutation(samples)


@dataclass(frozen=True, slots=True)
class Rounds:
    """A sampler in the shape that TRL's trainer wants: a round's rows as often as it is cut."""

    seed: int
    samples: int
    prompts: int
    num_generations: int
    repeats: int
    """Batches that a round's rollouts are cut into, over all its optimiser steps."""
    rounds: int

    def __iter__(self) -> Iterator[int]:
        for number in range(self.rounds):
            rows = drawn(self.seed, self.samples, self.prompts, number)
            once = [row for row in rows for _ in range(self.num_generations)]
            for _ in range(self.repeats):
                yield from once

    def __len__(self) -> int:
        return self.rounds * self.repeats * self.prompts * self.num_generations

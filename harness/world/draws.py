"""Random whole numbers that are equal on every platform, from named independent streams.

Numbers are made from Philox's raw 64-bit words, which its definition and numpy's policy for bit
generators fix. numpy's distributions may change, so none is used, and no float is drawn.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class Draws:
    """One stream of draws, named by a seed and a path such as `("still", "val", 3)`.

    Streams with different names are independent, so that scene 3 is the same whether ten scenes
    are made or ten thousand.
    """

    __slots__ = ("_words",)

    def __init__(self, seed: int, *path: str | int) -> None:
        name = "/".join(map(str, (seed, *path))).encode()
        key = hashlib.blake2b(name, digest_size=16, person=b"harness-shapes").digest()
        self._words = np.random.Philox(key=np.frombuffer(key, dtype="<u8").astype(np.uint64))

    def integer_below(self, limit: int) -> int:
        """Draw a number from 0 to `limit` - 1."""
        return int(self._words.random_raw()) % limit

    def integer_between(self, low: int, high: int) -> int:
        """Draw a number from `low` to `high`, both included."""
        return low + self.integer_below(high - low + 1)

    def chance(self, times: int, of: int) -> bool:
        """Return True with probability `times` / `of`."""
        return self.integer_below(of) < times

    def sign(self) -> int:
        """Draw -1 or 1."""
        return 1 - 2 * self.integer_below(2)

    def choice(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return options[self.integer_below(len(options))]

    def shuffle(self, items: Sequence[T]) -> list[T]:
        """Return the items in a random order (Fisher-Yates)."""
        order = list(items)
        for last in range(len(order) - 1, 0, -1):
            index = self.integer_below(last + 1)
            order[last], order[index] = order[index], order[last]
        return order

    def array(self, shape: tuple[int, ...], *, below: int) -> NDArray[np.int64]:
        """Draw an array of numbers from 0 to `below` - 1."""
        size = int(np.prod(shape, dtype=np.int64))
        words = np.asarray(self._words.random_raw(size), dtype=np.uint64)
        return (words % np.uint64(below)).astype(np.int64).reshape(shape)

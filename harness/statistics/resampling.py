"""Random weights of groups: counts of their draws, and masks of the swapped ones.

Both are drawn in blocks, so that the memory they need is bounded, and from streams that do not
depend on the size of a block. The generator is SFC64, whose streams are equal on all machines and
half as dear as Philox's; nothing here jumps within a stream.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from harness.statistics.clusters import FloatArray

CELLS = 2**17  # weights held at once: 1 MiB, which a core's cache holds
KEPT_CELLS = 2**20  # weights of one call that are kept for the next: 8 MiB


def generator(seed: int, *, stream: int = 0) -> np.random.Generator:
    """Random numbers of a seed; streams of one seed are independent of each other."""
    entropy = [seed, stream] if stream else seed
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy)))


def draws(groups: int, *, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Count the draws of each group in as many draws with replacement as there are groups.

    Exactly multinomial: every draw is a fair one of `groups` (no Poisson weights).

    Yields:
        Whole numbers, resamples × groups; a block's rows are the next resamples. They are not to be
        written to.
    """
    if groups * resamples <= KEPT_CELLS:
        yield from _kept_draws(groups, resamples, seed, CELLS)
        return
    yield from _draws(groups, resamples, seed)


@lru_cache(maxsize=1)
def _kept_draws(groups: int, resamples: int, seed: int, cells: int) -> tuple[FloatArray, ...]:
    """Return the draws of the last call in the same blocks: rows of a table are drawn alike."""
    return tuple(_draws(groups, resamples, seed))


def _draws(groups: int, resamples: int, seed: int) -> Iterator[FloatArray]:
    random = generator(seed)
    for rows in blocks(resamples, max(1, CELLS // groups)):
        drawn = random.integers(groups, size=(rows, groups))
        drawn += np.arange(0, rows * groups, groups)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * groups)
        table = counts.reshape(rows, groups).astype(np.float64)
        table.flags.writeable = False
        yield table


def swaps(groups: int, *, count: int, seed: int) -> Iterator[FloatArray]:
    """Draw the groups that are swapped, each with probability one half.

    Yields:
        0 and 1, swaps × groups; a block's rows are the next swaps.
    """
    random = generator(seed, stream=1)
    words = -(-groups // 64)
    for rows in blocks(count, max(1, CELLS // groups)):
        drawn = random.integers(2**64, size=(rows, words), dtype=np.uint64)
        bits = np.unpackbits(drawn.astype("<u8").view(np.uint8), axis=1, bitorder="little")
        yield bits[:, :groups].astype(np.float64)


def all_swaps(groups: int) -> FloatArray:
    """Every way of swapping, 2^groups × groups; none is the first row."""
    codes = np.arange(2**groups)[:, None]
    return ((codes >> np.arange(groups)) & 1).astype(np.float64)


def blocks(total: int, limit: int) -> Iterator[int]:
    """Sizes of at most `limit` that add up to `total`.

    >>> list(blocks(7, 3))
    [3, 3, 1]
    """
    for start in range(0, total, limit):
        yield min(limit, total - start)

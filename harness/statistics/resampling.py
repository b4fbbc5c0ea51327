"""Random weights of groups: counts of draws, for the bootstrap, and masks of swaps.

Both are yielded in blocks of rows, so that memory is bounded; the numbers do not depend on the size
of a block. The generator is SFC64, which gives equal numbers on all machines in half of Philox's
time.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from harness.statistics.clusters import FloatArray

BLOCK_CELLS = 2**17  # weights held at once: 1 MiB, which a core's cache holds
KEPT_CELLS = 2**20  # weights of one call that are kept for the next: 8 MiB


def generator(seed: int, *, stream: int = 0) -> np.random.Generator:
    """Return a generator of random numbers; streams of one seed are independent of each other."""
    entropy = [seed, stream] if stream else seed
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy)))


def draws(groups: int, *, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Yield, for each resample, how often each group is drawn.

    A resample draws `groups` times with replacement, each group with equal probability (its counts
    are exactly multinomial, not approximated by Poisson weights).

    Yields:
        Blocks of whole numbers, resamples × groups, read-only.
    """
    if groups * resamples <= KEPT_CELLS:
        yield from _kept_draws(groups, resamples, seed, BLOCK_CELLS)
        return
    yield from _multiplicities(groups, resamples, seed)


@lru_cache(maxsize=1)
def _kept_draws(groups: int, resamples: int, seed: int, cells: int) -> tuple[FloatArray, ...]:
    """Return all blocks of draws; kept, because metrics of a table are resampled alike."""
    return tuple(_multiplicities(groups, resamples, seed))


def _multiplicities(groups: int, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Yield blocks of counts of drawn groups, resamples × groups, each row summing to `groups`."""
    random = generator(seed)
    for rows in blocks(resamples, max(1, BLOCK_CELLS // groups)):
        indices = random.integers(groups, size=(rows, groups))
        indices += np.arange(0, rows * groups, groups)[:, None]
        counted_draws = np.bincount(indices.ravel(), minlength=rows * groups)
        table = counted_draws.reshape(rows, groups).astype(np.float64)
        table.flags.writeable = False
        yield table


def swaps(groups: int, *, count: int, seed: int) -> Iterator[FloatArray]:
    """Yield, for each swap, the groups that are swapped, each with probability one half.

    Yields:
        Blocks of 0 and 1, swaps × groups.
    """
    random = generator(seed, stream=1)
    words = -(-groups // 64)  # of 64 random bits each, rounded up
    for rows in blocks(count, max(1, BLOCK_CELLS // groups)):
        drawn = random.integers(2**64, size=(rows, words), dtype=np.uint64)
        bits = np.unpackbits(drawn.astype("<u8").view(np.uint8), axis=1, bitorder="little")
        yield bits[:, :groups].astype(np.float64)


def all_swaps(groups: int) -> FloatArray:
    """Return all ways of swapping, 2^groups × groups, of 0 and 1; the first row swaps nothing."""
    codes = np.arange(2**groups)[:, None]
    return ((codes >> np.arange(groups)) & 1).astype(np.float64)


def blocks(total: int, limit: int) -> Iterator[int]:
    """Yield sizes of at most `limit` that add up to `total`.

    >>> list(blocks(7, 3))
    [3, 3, 1]
    """
    for start in range(0, total, limit):
        yield min(limit, total - start)

"""Draw the samples that a run predicts first (its pilot), to forecast the cost of all samples.

They are drawn by length from the plan's batches. A model that answers by the sample gets them
alone; any other model gets whole batches of the plan, so that all predictions equal those of a
run without a pilot. `piloted` calls `draw` and the methods of `Draw`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from random import Random

from harness.run.batching import Batch
from harness.types import Query

RESERVOIR_SIZE = 1024
"""Number of the plan's pieces that are drawn uniformly; pilots are drawn from these."""
MIN_BATCHES = 3
"""Smallest number of batches of a pilot if batches are not divided; the first is a warm-up."""
PIXELS_A_TOKEN, CHARACTERS_A_TOKEN = 28 * 28, 4
"""Approximate numbers of pixels and of characters that make one token of a prompt."""


def predicted_length(query: Query) -> float:
    """Return the approximate tokens of a query's prompt, if every frame of its media is shown."""
    pixels = sum(len(medium) * medium.size[0] * medium.size[1] for medium in query.media)
    return pixels / PIXELS_A_TOKEN + len(query.text) / CHARACTERS_A_TOKEN


@dataclass(frozen=True, slots=True)
class Piece:
    """The smallest part of a plan that may be predicted by itself: a sample, or a whole batch."""

    batch: Batch
    length: float
    """Mean predicted length of its queries."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Pieces drawn uniformly from a plan, and totals of the plan."""

    pieces: tuple[Piece, ...]
    """Shortest first."""
    longest: Piece
    samples: int
    """Number of the plan's queries."""
    mean_length: float
    """Mean of their predicted lengths."""
    next_index: int
    """The first index that no batch of the plan has."""
    by_sample: bool
    """True if pieces are single samples."""
    offset: float
    """Random number from 0 to 1: the start of systematic samples."""

    def pilot(self, count: int) -> list[Piece]:
        """Return pieces with about `count` samples: the longest, then a sample of all others.

        There are fewer samples if the plan has fewer, or if some of its batches are smaller than
        the largest, and more if `MIN_BATCHES` batches have more. The longest is first, because no
        later sample needs more memory; as a warm-up, its seconds do not count.
        """
        size = 1 if self.by_sample else max(len(piece.batch.queries) for piece in self.pieces)
        number = math.ceil(count / size)
        number = max(number, MIN_BATCHES) if size > 1 else number
        others = [piece for piece in self.pieces if piece.batch != self.longest.batch]
        return [self.longest, *_systematic(others, number - 1, self.offset)]

    def further(self, count: int, known_ids: Set[str]) -> list[Piece]:
        """Return `count` pieces in random order, without pieces of the queries `known_ids`."""
        others = [piece for piece in self.pieces if piece.batch.queries[0].id not in known_ids]
        chosen = _systematic(others, count, self.offset)
        Random(str(self.offset)).shuffle(chosen)
        return chosen

    def batches(
        self, pieces: Sequence[Piece], *, size: int, workers: int, first: int = 0
    ) -> list[Batch]:
        """Return pieces as batches: of at most `size` queries, and at least one for each worker.

        Their indices begin at `next_index + first`. Pieces that are whole batches stay unchanged.
        """
        if not self.by_sample:
            return [piece.batch for piece in pieces]
        parts = min(len(pieces), max(workers, math.ceil(len(pieces) / size)))
        return [
            replace(
                pieces[0].batch,
                index=self.next_index + first + part,
                queries=tuple(
                    chain.from_iterable(piece.batch.queries for piece in pieces[part::parts])
                ),
            )
            for part in range(parts)
        ]


def draw(plan: Iterable[Batch], *, by_sample: bool, seed: int) -> Draw | None:
    """Draw pieces of a plan uniformly in one pass (reservoir sampling); None for an empty plan."""
    random, pieces = Random(seed), list[Piece]()
    longest: Piece | None = None
    n_pieces = n_samples = last_index = 0
    total_length = 0.0
    for batch in plan:
        last_index = max(last_index, batch.index)
        for piece in _pieces(batch, by_sample=by_sample):
            if longest is None or piece.length > longest.length:
                longest = piece
            n_samples += len(piece.batch.queries)
            total_length += piece.length * len(piece.batch.queries)
            n_pieces += 1
            if len(pieces) < RESERVOIR_SIZE:
                pieces.append(piece)
            elif (slot := random.randrange(n_pieces)) < RESERVOIR_SIZE:
                pieces[slot] = piece
    if longest is None:
        return None
    pieces.sort(key=lambda piece: piece.length)
    return Draw(
        pieces=tuple(pieces),
        longest=longest,
        samples=n_samples,
        mean_length=total_length / n_samples,
        next_index=last_index + 1,
        by_sample=by_sample,
        offset=random.random(),
    )


def without(plan: Iterable[Batch], known_ids: Set[str]) -> Iterator[Batch]:
    """Yield a plan's batches without the queries `known_ids`."""
    for batch in plan:
        queries = tuple(query for query in batch.queries if query.id not in known_ids)
        if queries:
            yield replace(batch, queries=queries)


def _pieces(batch: Batch, *, by_sample: bool) -> Iterator[Piece]:
    """Yield the pieces of a batch: each sample, or the batch as a whole."""
    lengths = [predicted_length(query) for query in batch.queries]
    if by_sample:
        for query, length in zip(batch.queries, lengths, strict=True):
            yield Piece(replace(batch, queries=(query,)), length)
    else:
        yield Piece(batch, sum(lengths) / len(lengths))


def _systematic(pieces: Sequence[Piece], count: int, offset: float) -> list[Piece]:
    """Return a systematic sample: one piece of each of `count` equal parts, at the same offset."""
    count = min(count, len(pieces))
    return [pieces[int((part + offset) * len(pieces) / count)] for part in range(count)]

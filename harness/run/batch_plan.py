"""The plan of a run's batches, which is the same in every process and after every resumption.

`evaluate` and `piloted` ask it for the batches with unfinished samples, by the journal's entries.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from harness.run.batching import Batch, batches, is_done, remaining_batches, window_size
from harness.run.stored_queries import StoredQueries
from harness.store.journal import JournalPosition
from harness.types import Query, Sample


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """Plan of a run's batches."""

    samples: Callable[[], Iterable[Sample]]
    """Returns the samples in the order in which they are predicted."""
    stored: StoredQueries | None
    """Queries stored by an earlier attempt, used instead of the benchmark; None: there are none."""
    size: int
    """Number of queries in a batch."""
    sort: bool
    """True: sort the queries of a window by length, so that batches need little padding."""
    run: str
    """Hash of the run's configuration."""
    retry_failed: bool
    """True: failed samples count as unfinished."""
    by_sample: bool
    """True if the model answers by the sample: a batch is repeated without finished samples."""

    def remaining(self, places: Mapping[str, JournalPosition]) -> Iterator[Batch]:
        """Yield the batches that have unfinished samples; see `remaining_batches`.

        Args:
            places: The journal's entry of each prediction, by query id.
        """
        queries: Iterable[Query] = (sample.query for sample in self.samples())
        first = 0  # number of the first batch that is read
        if self.stored is not None:  # windows whose queries are all finished are skipped
            done = takewhile(lambda query: self._is_done(places.get(query)), self.stored.ids)
            n_windows = sum(1 for _ in done) // window_size(self.size, sort=self.sort)
            first = n_windows * window_size(1, sort=self.sort)  # batches in a window
            queries = self.stored.since(first * self.size)
        return remaining_batches(
            batches(queries, size=self.size, sort=self.sort, run=self.run, first=first),
            places,
            retry_failed=self.retry_failed,
            by_sample=self.by_sample,
        )

    def redone(self, places: Mapping[str, JournalPosition]) -> set[str]:
        """Return the ids of the queries in batches that have unfinished samples."""
        if self.stored is None or (self.sort and not self.by_sample):
            return {query.id for batch in self.remaining(places) for query in batch.queries}
        ids, size = self.stored.ids, 1 if self.by_sample else self.size  # repeated together
        plan = (ids[start : start + size] for start in range(0, len(ids), size))
        return {
            query
            for batch in plan
            if not all(self._is_done(places.get(query)) for query in batch)
            for query in batch
        }

    def _is_done(self, position: JournalPosition | None) -> bool:
        return is_done(position, retry_failed=self.retry_failed)

"""Select the samples of a run, cut them into batches, and group them into units.

Selection and batches depend on the task and the options alone, not on the workers. A unit is the
group of samples that is scored together; `Sample.group`, the image or video by which statistics are
clustered, is another thing.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path

import numpy as np

from harness.errors import UsageError, counted, raised_as
from harness.files import read_text
from harness.plugins import plugin_errors
from harness.store.journal import JournalPosition
from harness.task import Task
from harness.types import FailureKind, Query, Sample

FIRST_SAMPLES = re.compile(r"first(\d{1,9})\Z")  # first200
DRAWN_SAMPLES = re.compile(r"seed(\d{1,9})-(\d{1,9})\Z")  # seed0-200: seed, number of samples
WINDOW_BATCHES = 16  # batches within which queries may be sorted


@dataclass(frozen=True, slots=True)
class Selection:
    """A named part of a task's samples: all, `first200`, `seed0-200`, or a file of ids.

    Parts are made of whole units: `first200` is the units that hold the first 200 samples.
    """

    name: str | None
    units: frozenset[str] | None
    """Names of the chosen units; None: all."""

    def samples(self, task: Task) -> Iterator[Sample]:
        """Yield the chosen samples in the task's order."""
        chosen = self.units
        for sample in samples_of(task):
            if chosen is None or sample.unit in chosen:
                yield sample


def samples_of(task: Task) -> Iterator[Sample]:
    """Yield all samples of a task; any exception of its reader becomes an error that names it."""
    with plugin_errors(f"the samples of {task.name}, split {task.split}"):
        yield from task.samples()


def select(task: Task, name: str | None) -> Selection:
    """Return the selection of a subset: None, `first<N>`, `seed<S>-<N>`, or a file of ids.

    Raises:
        UsageError: the name has another form or takes no sample, or the file cannot be read or has
            unknown ids.
    """
    if name is None:
        return Selection(None, None)
    match = FIRST_SAMPLES.match(name) or DRAWN_SAMPLES.match(name)
    if match and _count_in(match) == 0:
        raise UsageError(f"subset {name!r}", expected="at least one sample", found="none")
    if match and match.re is FIRST_SAMPLES:
        first = islice(samples_of(task), int(match[1]))
        return Selection(name, frozenset(sample.unit for sample in first))
    if match:
        return Selection(name, _draw(task, seed=int(match[1]), count=int(match[2])))
    ids = _read_ids(name)
    unit_of = {sample.id: sample.unit for sample in samples_of(task) if sample.id in ids}
    if missing := sorted(ids - set(unit_of)):
        raise UsageError(
            f"subset file {name}",
            expected=f"ids of {task.name}, split {task.split}",
            found=f"{len(missing)} others, such as {missing[0]!r}",
        )
    digest = hashlib.blake2b("\n".join(sorted(ids)).encode(), digest_size=8).hexdigest()
    return Selection(f"ids-{digest}", frozenset(unit_of.values()))


def shortage(name: str | None, present: int) -> str | None:
    """Return a text if a subset has fewer samples (`present`) than its name asks for, else None.

    >>> shortage("first200", 3), shortage("seed0-200", 200), shortage(None, 3)
    ('3 samples of the 200 that first200 asks for: the set holds no more', None, None)
    """
    match = (FIRST_SAMPLES.match(name) or DRAWN_SAMPLES.match(name)) if name else None
    if match is None:
        return None
    requested = _count_in(match)
    if requested <= present:
        return None
    return (
        f"{counted(present, 'sample')} of the {requested} that {name} asks for: "
        "the set holds no more"
    )


def _count_in(match: re.Match[str]) -> int:
    """Return the number of samples in a subset's name: the pattern's last group."""
    return int(match[match.re.groups])


def _read_ids(name: str) -> set[str]:
    """Return the ids in a file with one id per line."""
    try:
        with raised_as(
            UsageError, f"subset file {name}", "UTF-8 text, one id a line", UnicodeDecodeError
        ):
            ids = set(read_text(Path(name), "utf-8-sig").split("\n")) - {""}
    except (OSError, ValueError) as error:
        raise UsageError(
            f"subset {name[:200]!r}",
            expected="first<N>, seed<S>-<N>, or a file of ids",
            found="neither a form nor a file that can be read",
        ) from error
    if not ids:
        raise UsageError(f"subset file {name}", expected="at least one id", found="none")
    return ids


def _draw(task: Task, *, seed: int, count: int) -> frozenset[str]:
    """Return units drawn without replacement until they hold `count` samples."""
    sizes = {
        unit: sum(1 for _ in members)
        for unit, members in groupby(sample.unit for sample in samples_of(task))
    }
    names = list(sizes)
    order = np.random.Generator(np.random.Philox(key=seed)).permutation(len(names))
    chosen: set[str] = set()
    n_drawn = 0
    for index in order:
        if n_drawn >= count:
            break
        chosen.add(names[index])
        n_drawn += sizes[names[index]]
    return frozenset(chosen)


def lost_image(query: Query) -> str | None:
    """Return the fault of the query's first image that cannot be read; None if all can be."""
    return next((media.fault for media in query.media if media.fault), None)


@dataclass(frozen=True, slots=True)
class Batch:
    """Queries that are predicted together, by any worker."""

    index: int
    queries: tuple[Query, ...]
    run: str = ""
    """Hash of the run's configuration, which the journal records with them."""
    kept: frozenset[str] = frozenset()
    """Ids of queries whose predictions are journalled already: they are predicted again with the
    others, but not written again."""


def batches(
    queries: Iterable[Query], *, size: int, sort: bool, run: str = "", first: int = 0
) -> Iterator[Batch]:
    """Cut a stream of queries into batches, reading a window at a time.

    Args:
        queries: The queries, from the first one of batch number `first`.
        size: Number of queries in a batch.
        sort: Sort the queries of a window by length, so that batches need little padding.
        run: Hash of the run's configuration.
        first: Number of the first batch.
    """
    stream = iter(queries)
    index = first
    while window := list(islice(stream, window_size(size, sort=sort))):
        if sort:
            window.sort(key=_length)
        for start in range(0, len(window), size):
            yield Batch(index, tuple(window[start : start + size]), run)
            index += 1


def window_size(size: int, *, sort: bool) -> int:
    """Return the number of queries that are sorted together, for batches of `size`."""
    return size * (WINDOW_BATCHES if sort else 1)


def _length(query: Query) -> tuple[int, int, int]:
    """Return a query's sort key: frames, pixels of its largest medium, characters."""
    pixels = max((media.size[0] * media.size[1] for media in query.media), default=0)
    return sum(map(len, query.media)), pixels, len(query.text)


def shuffled(samples: Iterable[Sample], seed: int) -> list[Sample]:
    """Return samples with their groups in a drawn order, and in their own order within a group."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    names = list(groups)
    order = np.random.Generator(np.random.Philox(key=seed)).permutation(len(names))
    return [sample for index in order for sample in groups[names[index]]]


def remaining_batches(
    plan: Iterable[Batch],
    places: Mapping[str, JournalPosition],
    *,
    retry_failed: bool,
    by_sample: bool,
) -> Iterator[Batch]:
    """Yield the plan's batches that have unfinished samples.

    A batch is repeated with all its samples, because a network's output for one sample may depend,
    in the last bits, on the others. A model that answers by the sample is given the unfinished
    samples alone: its batches are many times as large as what the network computes together.

    Args:
        plan: All batches of the run.
        places: The journal's entry of each prediction, by query id.
        retry_failed: Failed samples count as unfinished; lost ones always do.
        by_sample: True if the model answers by the sample.
    """
    for batch in plan:
        remaining = tuple(
            query
            for query in batch.queries
            if not is_done(places.get(query.id), retry_failed=retry_failed)
        )
        if remaining:
            yield replace(batch, queries=remaining) if by_sample else batch


def is_done(position: JournalPosition | None, *, retry_failed: bool) -> bool:
    """Return True if a sample needs no further prediction.

    A sample that was lost to the infrastructure is never done; a failed one unless `retry_failed`.
    """
    if position is None or position.failure == FailureKind.INFRASTRUCTURE:
        return False
    return position.failure is None or not retry_failed


def units(samples: Iterable[Sample]) -> Iterator[Sequence[Sample]]:
    """Group a stream of samples into units."""
    for _, members in groupby(samples, key=lambda sample: sample.unit):
        yield tuple(members)

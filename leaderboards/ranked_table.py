"""A table of a board: the runs that may be compared with each other, ranked by paired tests.

Rows share a table only if task, version, split, protocol, judge, subset and the data's fingerprint
are equal (`key`), because a number by another protocol or on other samples is another quantity.
`board` calls `table` with the runs of one key. The headline's interval of each run and the paired
tests are computed from the scores of its units; `notes` name what could not be computed.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import DataError, HarnessError, StoreError, counted
from harness.leaderboards import formatting, sensitivity
from harness.leaderboards.differences import bracket
from harness.leaderboards.differences.bracket import Bracketed
from harness.leaderboards.history.known import KnownValues
from harness.leaderboards.known_statistics import KnownStatistics, Scored
from harness.leaderboards.published_results import PublishedRow, published_rows
from harness.leaderboards.ranking import Basis, Compare, rank
from harness.leaderboards.reproduction import of_paper
from harness.leaderboards.row import Row
from harness.leaderboards.runs import check_numbers, metrics_for, refusals
from harness.leaderboards.unit_values import unit_failures, unit_values
from harness.record import Run
from harness.run.sweep import sweep_at
from harness.scores import Better, Metric, UnitScore
from harness.statistics.bootstrap import intervals
from harness.statistics.clusters import of_corpora
from harness.statistics.paired import Comparison, compare, groups_text

LEVEL = 0.95  # confidence level of intervals and tests
RULES = ("task", "task_version", "split", "protocol", "judge", "subset", "data")
"""Properties of a row that must be equal for two rows to be compared."""
Key: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row in its table."""

    row: Row
    rank: int | None
    """Shared until a difference is shown (`ranking`); None for a row without a number."""
    basis: Basis | None
    to_best: Comparison | None
    """Comparison with the best row; None for the best row, and if the two cannot be paired."""
    run: Run
    """The run, whose folder is never published."""
    unit_values: Mapping[str, float | None]
    """The headline on each unit alone, by the unit's name; empty if it cannot be computed."""
    unit_failures: Mapping[str, int]
    """Number of samples of each unit without an answer that the protocol reads, by its name."""
    protocols: tuple[Bracketed, ...] = ()
    """The same predictions by other protocols, if they were scored so (`bracket`)."""

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.run.folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The runs that may be compared with each other, best first."""

    task: str
    task_version: int
    split: str
    protocol: str
    judge: str | None
    """Judge of the free answers, and its rubric."""
    subset: str | None
    data: str
    """Fingerprint of the annotations and samples, equal in all rows."""
    headline: str
    ceiling: float | None
    """Score of perfect answers on the headline."""
    entries: tuple[Entry, ...]
    published: tuple[PublishedRow, ...] = ()
    """Rows of papers, which have no rank and no paired test."""
    scoring: tuple[Metric, ...] = ()
    """The headline last, after the metrics that it is derived from; empty if it is not known."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader, such as the reason why rows could not be paired."""
    n_groups: int | None = None
    """Number of images or videos; None if they were not counted."""

    @classmethod
    def of(cls, entries: Sequence[Entry], ceiling: float | None, **fields: Any) -> "Table":
        """Return a table with the rules and data that its rows have in common."""
        first = entries[0].row
        shared = {name: getattr(first, name) for name in (*RULES, "headline")}
        return cls(**shared, ceiling=ceiling, entries=tuple(entries), **fields)

    @property
    def title(self) -> str:
        """Task, split and subset."""
        return f"{self.task} {self.split}" + (f" ({self.subset})" if self.subset else "")

    @property
    def better(self) -> Better:
        """The headline's direction."""
        return self.entries[0].row.better[self.headline]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of all metrics, the headline first."""
        return metric_names(self.entries[0].row)

    @property
    def facts(self) -> list[str]:
        """Describe the runs in short phrases: protocol, judge, versions, samples, data."""
        text = [
            *self._scored_by,
            f"task version {self.task_version}",
            *self._scored_on,
            f"data {self.data[:12]}",
        ]
        if self.ceiling is not None:
            text.append(f"perfect answers score {formatting.number(self.ceiling)}")
        return text

    @property
    def conditions(self) -> list[str]:
        """The phrases of `facts` that the reader of a paper needs: protocol, judge, samples."""
        return [*self._scored_by, *self._scored_on]

    @property
    def _scored_by(self) -> list[str]:
        return [f"protocol {self.protocol}", *([f"graded by {self.judge}"] if self.judge else [])]

    @property
    def _scored_on(self) -> list[str]:
        samples = sorted({entry.row.n_total for entry in self.entries})
        of_groups = ""
        if self.n_groups and self.n_groups not in samples:
            of_groups = f" of {groups_text(self.n_groups)}"
        return [
            counted(samples[0], "sample") + of_groups
            if len(samples) == 1
            else f"{' or '.join(f'{count:,}' for count in samples)} samples",
            f"subset {self.subset}" if self.subset else "all of the split",
        ]


def metric_names(run_row: Row) -> tuple[str, ...]:
    """Names of a row's metrics, the headline first."""
    return (run_row.headline, *(name for name in run_row.metrics if name != run_row.headline))


def key(row: Row) -> Key:
    """Return the properties that must be equal for two rows to be compared."""
    return tuple(getattr(row, name) or "" for name in RULES)


def table(
    members: Sequence[tuple[Run, Row]],
    *,
    data_root: Path | None = None,
    refused: dict[Path, StoreError] | None = None,
    index: KnownValues | None = None,
) -> Table | None:
    """Rank the runs of one table.

    Args:
        members: Runs with equal keys, each with its row.
        data_root: Where the benchmarks lie now, if not where the runs read them.
        refused: Collects the error of each run whose record is invalid; None: it is raised.
        index: Cache of values computed from runs.

    Returns:
        The table; None if all runs are refused.
    """
    notes: list[str] = []
    metrics = _metrics(members, data_root, notes)
    statistics = KnownStatistics(index, [run for run, _ in members], metrics)
    units_of: Callable[[Run], tuple[UnitScore, ...]] = cache(lambda run: tuple(run.units()))
    runs: list[Run] = []
    rows: list[Row] = []
    scores: list[Scored] = []
    protocols: list[tuple[Bracketed, ...]] = []
    for run, run_row in members:
        with refusals(run.folder, refused):
            scored = statistics.scored(run, partial(_scored, run_row, run, units_of, metrics))
            if scored.interval != run_row.interval:
                updated = {**run_row.intervals, run_row.headline: scored.interval}
                run_row = replace(run_row, intervals=updated)
            protocols.append(_protocols(run, run_row))
            runs.append(run)
            rows.append(replace(run_row, rescored=bool(metrics)))
            scores.append(scored)
    if not rows:
        return None
    first = rows[0]
    rows = [
        replace(run_row, published=of_paper(run_row)) if run_row.of_benchmark else run_row
        for run_row in rows
    ]
    of_papers = first.of_benchmark and first.subset is None
    unanswered = frozenset(i for i, run_row in enumerate(rows) if run_row.value is None)
    compare_rows = comparer(
        metrics,
        lambda position: units_of(runs[position]),
        name=first.headline,
        notes=notes,
        without=unanswered,
    )

    def paired(a: int, b: int) -> Comparison | None:
        return statistics.comparison(runs[a], runs[b], partial(compare_rows, a, b))

    ranked = rank(rows, paired)
    sweep_above = cache(sweep_at)
    sweeps = [sweep_above(run.place.parent) for run in runs]
    notes.extend(sensitivity.setting_notes(rows, sweeps, paired))
    notes.extend(_notes(rows))
    entries = [
        Entry(
            row=rows[position.index],
            rank=position.rank,
            basis=position.basis,
            to_best=position.to_best,
            run=runs[position.index],
            unit_values=scores[position.index].values,
            unit_failures=scores[position.index].failures,
            protocols=protocols[position.index],
        )
        for position in ranked
    ]
    if index is not None:
        index.save_records(runs, units_of)
    statistics.save()
    return Table.of(
        entries,
        first.ceiling,
        published=published_rows(first, metric_names(first)) if of_papers else (),
        scoring=metrics,
        notes=tuple(dict.fromkeys(notes)),
    )


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the footnotes of rows: training data, deviations, code, adaptation, cuts, papers."""
    yield from (formatting.trained_on(run_row) for run_row in rows if run_row.trained_on_some)
    yield from (formatting.deviation_note(run_row) for run_row in rows if run_row.deviations)
    yield from (formatting.changed_note(run_row) for run_row in rows if run_row.changed)
    yield from (formatting.adaptation_note(run_row) for run_row in rows if run_row.adaptation)
    yield from filter(None, map(formatting.ledger_note, rows))
    yield from (formatting.paper_note(run_row) for run_row in rows if run_row.published)
    yield from formatting.label_noise_notes(rows)
    yield from filter(None, [formatting.older_scorer_note(rows)])


def _protocols(run: Run, run_row: Row) -> tuple[Bracketed, ...]:
    """Return a run's numbers by protocol; empty if it was scored again since they were stored."""
    protocols = bracket.read(run.folder)
    if protocols and protocols[0].metrics.get(run_row.headline) == run_row.value:
        return protocols
    return ()


def _metrics(
    members: Sequence[tuple[Run, Row]], data_root: Path | None, notes: list[str]
) -> tuple[Metric, ...]:
    """Return the headline and the metrics that it is derived from.

    They may need the benchmark's files, so that each run is tried, those with a number first.
    Empty, with a note, if no run has them.
    """
    name, errors = members[0][1].headline, []
    for run, _ in sorted(members, key=lambda member: member[1].value is None):
        try:
            return metrics_for(run, tuple(run.units()), name=name, data_root=data_root)
        except HarnessError as error:
            errors.append(error)
    notes.append(f"{name} cannot be computed from the scores again: {errors[0]}")
    return ()


def _scored(
    run_row: Row,
    run: Run,
    units_of: Callable[[Run], Sequence[UnitScore]],
    metrics: Sequence[Metric],
) -> Scored:
    """Compare a run's recorded numbers with its scores, and compute the headline's interval.

    A metric of a corpus keeps its recorded interval, because computing it would call the metric's
    function once for each block of groups. So do all metrics if `metrics` is empty.

    Raises:
        StoreError: a recorded number does not follow from the scores.
    """
    units, interval = units_of(run), run_row.interval
    if metrics:
        check_numbers(run, units, metrics)
        if not of_corpora(metrics) and run_row.value is not None:
            computed = intervals(metrics, units, seed=run.manifest["seed"])
            interval = computed[run_row.headline]
    return Scored(interval, unit_values(metrics, units), unit_failures(units))


def comparer(
    metrics: Sequence[Metric],
    units: Callable[[int], Sequence[UnitScore]],
    *,
    name: str,
    notes: list[str],
    without: Container[int] = (),
) -> Compare:
    """Return a paired test of two runs by their indices.

    It returns None if the pair cannot be tested, and adds the reason to `notes`. Indices in
    `without` are of runs without a number, which are not compared.
    """
    if not metrics:
        return lambda a, b: None

    def compare_rows(a: int, b: int) -> Comparison | None:
        if a in without or b in without:
            return None
        try:
            comparison = compare(metrics, units(a), units(b), name=name, level=LEVEL)
            return replace(comparison, swaps=None)  # 16 KiB that no reader of a board uses
        except DataError as error:
            notes.append(f"Some rows cannot be paired. {error}")
            return None

    cached: Callable[[int, int], Comparison | None] = cache(compare_rows)
    return cached

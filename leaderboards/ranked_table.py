"""A table of a board: the runs that may be compared with each other, ranked by paired tests.

Rows share a table only if task, version, split, protocol, judge, subset and the data's fingerprint
are equal, because a number by another protocol or on other samples is another quantity.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import DataError, HarnessError, StoreError, counted
from harness.leaderboards import formatting, sensitivity
from harness.leaderboards.differences import bracket
from harness.leaderboards.differences.bracket import Bracketed
from harness.leaderboards.published_results import PublishedRow, published_rows
from harness.leaderboards.ranking import Basis, Compare, rank
from harness.leaderboards.reproduction import of_paper
from harness.leaderboards.row import Row
from harness.leaderboards.runs import check_numbers, metrics_for, refusals
from harness.leaderboards.unit_values import unit_failures, unit_values
from harness.record import Run
from harness.run.sweep import sweep_of
from harness.scores import Better, Metric, UnitScore
from harness.statistics.bootstrap import intervals
from harness.statistics.clusters import of_corpora
from harness.statistics.paired import Comparison, compare

LEVEL = 0.95
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
    """Comparison with the best row; None for the best, and where they cannot be paired."""
    folder: Path
    """The run's folder. Never published."""
    unit_values: Mapping[str, float | None]
    """The headline on each unit alone, by the unit's name; empty if it cannot be computed."""
    unit_failures: Mapping[str, int]
    """Number of samples of each unit without an answer that the protocol reads, by its name."""
    protocols: tuple[Bracketed, ...] = ()
    """The same predictions by other protocols, if they were scored so (`bracket`)."""


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
    """Rows of papers, which have no rank and are compared with nothing."""
    scoring: tuple[Metric, ...] = ()
    """The headline last, after the metrics that it is derived from; empty if it is not known."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader, such as the reason why rows could not be paired."""

    @classmethod
    def of(cls, entries: Sequence[Entry], ceiling: float | None, **given: Any) -> "Table":
        """A table with the rules and data that its rows have in common."""
        first = entries[0].row
        shared = {name: getattr(first, name) for name in (*RULES, "headline")}
        return cls(**shared, ceiling=ceiling, entries=tuple(entries), **given)

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
        samples = sorted({entry.row.n_total for entry in self.entries})
        text = [
            f"protocol {self.protocol}",
            *([f"graded by {self.judge}"] if self.judge else []),
            f"task version {self.task_version}",
            counted(samples[0], "sample")
            if len(samples) == 1
            else f"{' or '.join(f'{count:,}' for count in samples)} samples",
            f"subset {self.subset}" if self.subset else "all of the split",
            f"data {self.data[:12]}",
        ]
        if self.ceiling is not None:
            text.append(f"perfect answers score {formatting.number(self.ceiling)}")
        return text


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
) -> Table | None:
    """Rank the runs of one table; None if all of them are refused (`open_runs`)."""
    notes: list[str] = []
    metrics = _metrics(members, data_root, notes)
    runs: list[Run] = []
    rows: list[Row] = []
    units: list[tuple[UnitScore, ...]] = []
    protocols: list[tuple[Bracketed, ...]] = []
    for run, run_row in members:
        with refusals(run.folder, refused):
            scores = tuple(run.units())
            if metrics:
                check_numbers(run, scores, metrics)
                run_row = replace(with_interval(run_row, run, scores, metrics), rescored=True)
            protocols.append(_protocols(run, run_row))
            runs.append(run)
            rows.append(run_row)
            units.append(scores)
    if not rows:
        return None
    first = rows[0]
    rows = [
        replace(run_row, published=of_paper(run_row)) if run_row.of_benchmark else run_row
        for run_row in rows
    ]
    of_papers = first.of_benchmark and first.subset is None
    unanswered = frozenset(i for i, run_row in enumerate(rows) if run_row.value is None)
    paired = comparer(metrics, units, name=first.headline, notes=notes, without=unanswered)
    places = rank(rows, paired)
    sweeps = [sweep_of(run.folder) for run in runs]
    notes.extend(sensitivity.setting_notes(rows, sweeps, paired))
    notes.extend(formatting.trained_on(run_row) for run_row in rows if run_row.trained_on_some)
    notes.extend(formatting.deviation_note(run_row) for run_row in rows if run_row.deviations)
    notes.extend(formatting.adaptation_note(run_row) for run_row in rows if run_row.adaptation)
    notes.extend(filter(None, map(formatting.ledger_note, rows)))
    notes.extend(formatting.paper_note(run_row) for run_row in rows if run_row.published)
    entries = [
        Entry(
            row=rows[place.index],
            rank=place.rank,
            basis=place.basis,
            to_best=place.to_best,
            folder=runs[place.index].folder,
            unit_values=unit_values(metrics, units[place.index]),
            unit_failures=unit_failures(units[place.index]),
            protocols=protocols[place.index],
        )
        for place in places
    ]
    return Table.of(
        entries,
        first.ceiling,
        published=published_rows(first, metric_names(first)) if of_papers else (),
        scoring=metrics,
        notes=tuple(dict.fromkeys(notes)),
    )


def _protocols(run: Run, run_row: Row) -> tuple[Bracketed, ...]:
    """Return a run's numbers by protocol; none if its own is not the row's any more."""
    protocols = bracket.read(run.folder)
    if protocols and protocols[0].metrics.get(run_row.headline) == run_row.value:
        return protocols
    return ()


def _metrics(
    members: Sequence[tuple[Run, Row]], data_root: Path | None, notes: list[str]
) -> tuple[Metric, ...]:
    """Metrics of the headline, by the first run that they can be found for; else a note."""
    name, errors = members[0][1].headline, []
    for run, _ in sorted(members, key=lambda member: member[1].value is None):
        try:
            return metrics_for(run, tuple(run.units()), name=name, data_root=data_root)
        except HarnessError as error:
            errors.append(error)
    notes.append(f"{name} cannot be computed from the scores again: {errors[0]}")
    return ()


def with_interval(
    run_row: Row, run: Run, units: Sequence[UnitScore], metrics: Sequence[Metric]
) -> Row:
    """The row with its headline's interval computed from the scores.

    That of a corpus stays the recorded one: it would take as many calls of the metric's function
    as there are blocks of groups.
    """
    if of_corpora(metrics) or run_row.value is None:
        return run_row
    computed = intervals(metrics, units, seed=run.manifest["seed"])
    return replace(
        run_row, intervals={**run_row.intervals, run_row.headline: computed[run_row.headline]}
    )


def comparer(
    metrics: Sequence[Metric],
    units: Sequence[Sequence[UnitScore]],
    *,
    name: str,
    notes: list[str],
    without: Container[int] = (),
) -> Compare:
    """Return a function that compares runs by index; pairs without a result are None, with `notes`.

    Those `without` a number are not compared.
    """
    if not metrics:
        return lambda a, b: None

    def compare_rows(a: int, b: int) -> Comparison | None:
        if a in without or b in without:
            return None
        try:
            comparison = compare(metrics, units[a], units[b], name=name, level=LEVEL)
            return replace(comparison, swaps=None)  # 16 KiB, which nobody reads
        except DataError as error:
            notes.append(f"Some rows cannot be paired. {error}")
            return None

    cached: Callable[[int, int], Comparison | None] = cache(compare_rows)
    return cached

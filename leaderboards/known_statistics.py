"""Cache the intervals and paired comparisons of one table's runs in the index of runs.

`ranked_table` asks for each number with a function that computes it; the function is called only if
the run's files, the metrics or their code have changed since the number was stored.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeAlias

from harness import plugins
from harness.leaderboards.history.known import KnownRun, KnownValues, code_marks
from harness.leaderboards.runs import declared_metrics
from harness.record import Run
from harness.scores import Metric
from harness.statistics.paired import Comparison

Interval: TypeAlias = tuple[float, float] | None
NAME = "statistics"  # of these values in the index
STORED_FIELDS = [
    field.name for field in fields(Comparison) if field.name not in ("swaps", "answers")
]
"""Fields of a comparison that are stored; the others are large and unused by boards."""


class Scored(NamedTuple):
    """Numbers of a run's headline that are computed from its scores."""

    interval: Interval
    values: Mapping[str, float | None]
    """`unit_values`."""
    failures: Mapping[str, int]
    """`unit_failures`."""


COLUMNS = ("values", "failures")
"""Fields of `Scored` that are stored as a list, in the order of the run's units."""


class KnownStatistics:
    """Statistics of the runs of one table; without an index all of them are computed."""

    def __init__(
        self, index: KnownValues | None, runs: Sequence[Run], metrics: Sequence[Metric]
    ) -> None:
        indexed = [run for run in runs if isinstance(run, KnownRun)]
        self._index = index if indexed and _are_declared(indexed[0], metrics) else None
        self._inputs = ""
        self._stored: Mapping[Any, dict[str, Any]] = {}
        if self._index is not None:
            self._inputs = _inputs(indexed[0], metrics)
            self._stored = self._index.load(NAME, indexed, self._inputs)
        self._current: dict[Run, dict[str, Any]] = {}
        self._computed: set[KnownRun] = set()
        """Runs with a value that the index lacks."""

    def scored(self, run: Run, compute: Callable[[], Scored]) -> Scored:
        """Return a run's numbers; `compute` also checks them against the run's scores."""
        stored = self._stored.get(run)
        if stored is None or not isinstance(run, KnownRun):
            scored = compute()
            self._note_computed(run)
        else:
            columns = (dict(zip(run.unit_names, stored[name], strict=True)) for name in COLUMNS)
            scored = Scored(_pair(stored["interval"]), *columns)
        self._current[run] = {
            "interval": scored.interval,
            **{name: list(getattr(scored, name).values()) for name in COLUMNS},
            "comparisons": {},
        }
        return scored

    def comparison(
        self, a: Run, b: Run, compute: Callable[[], Comparison | None]
    ) -> Comparison | None:
        """Return the comparison of run b with run a; it is stored with run b.

        `scored` must have been called for b.
        """
        if self._index is None or not isinstance(a, KnownRun) or not a.state:
            return compute()
        name = f"{a.place} {a.state}"
        stored = self._stored.get(b, {}).get("comparisons", {}).get(name)
        if stored is None:
            comparison = compute()
            self._note_computed(b)
        else:
            plain = dict(zip(STORED_FIELDS, stored, strict=True))
            comparison = Comparison(**plain | {"interval": _pair(plain["interval"])})
        if comparison is not None:
            values = [getattr(comparison, name) for name in STORED_FIELDS]
            self._current[b]["comparisons"][name] = values
        return comparison

    def _note_computed(self, run: Run) -> None:
        """Remember that a run has a new value, for `save`."""
        if isinstance(run, KnownRun):
            self._computed.add(run)

    def save(self) -> None:
        """Store the statistics of runs with a newly computed value."""
        if self._index is not None:
            new = {run: self._current[run] for run in self._computed}
            self._index.save(NAME, new, self._inputs)


def _pair(plain: Sequence[float] | None) -> Interval:
    return None if plain is None else (plain[0], plain[1])


def _are_declared(run: Run, metrics: Sequence[Metric]) -> bool:
    """Return True if metrics depend on the scores and on code alone, not on the benchmark's data.

    They are quotients, or declared by the installed task's module.
    """
    declared = declared_metrics(run)
    return bool(metrics) and all(
        (metric.corpus is None and metric.derived is None) or metric in declared
        for metric in metrics
    )


def _inputs(run: Run, metrics: Sequence[Metric]) -> str:
    """Return the inputs of statistics other than the runs' files: metrics, and the task's code."""
    entry = plugins.installed_plugins("tasks").get(run.manifest["task"]["name"])
    code = "" if entry is None else code_marks(entry.module.partition(".")[0])
    names = ("name", "better", "epsilon", "inputs", "is_partial")
    described = [[getattr(metric, name) for name in names] for metric in metrics]
    task = [run.manifest["task"][name] for name in ("name", "version", "split", "protocol")]
    return json.dumps([task, described, code])

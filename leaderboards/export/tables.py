"""Runs as a table of rows, and as a table of samples for pandas, DuckDB and the like."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.leaderboards.row import Row, row
from harness.leaderboards.runs import metrics_for
from harness.record import SCORES, Run
from harness.scores import Mean, Metric, Ratio, value_of
from harness.store.atomic import writing

SAMPLES = "samples.parquet"

GROUP = 2**16  # rows of Parquet that are held: few of them cost a group more than themselves
SCHEMA = pa.schema(
    [
        *((name, pa.dictionary(pa.int32(), pa.string())) for name in ("run", "model", "task")),
        *((name, pa.dictionary(pa.int32(), pa.string())) for name in ("split", "protocol")),
        ("unit", pa.string()),
        ("sample", pa.string()),
        ("group", pa.string()),
        ("categories", pa.map_(pa.string(), pa.string())),
        ("failed", pa.int32()),
        ("metric", pa.dictionary(pa.int32(), pa.string())),
        ("score", pa.float64()),
        ("weight", pa.float64()),
    ]
)
"""One line for each run, unit and metric. A metric's number is the mean of `score` with `weight`:
the denominator of a ratio; a headline that is derived from others has weight 1."""


def plain(run_row: Row) -> dict[str, Any]:
    """Return a row as plain data: what was run, the headline, its interval, the counts."""
    low, high = run_row.interval or (None, None)
    names = ("run", "model", "model_spec", "task", "task_version", "split", "protocol", "subset")
    rest = ("n_total", "n_failed", "seconds", "seed", "commit", "device", "data", "config_hash")
    return {
        **{name: getattr(run_row, name) for name in names},
        "headline": run_row.headline,
        "value": run_row.value,
        "low": low,
        "high": high,
        **{name: getattr(run_row, name) for name in rest},
    }


def to_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as plain data, with all metrics, intervals and failures."""
    return [
        {
            **plain(run_row),
            "metrics": dict(run_row.metrics),
            "intervals": {name: pair and list(pair) for name, pair in run_row.intervals.items()},
            "failures": dict(run_row.failures),
        }
        for run_row in rows
    ]


def write_samples(
    runs: Sequence[Run], path: Path, *, rows: Mapping[Path, Row] | None = None
) -> None:
    """Write the scores of all units of some runs as Parquet, in row groups of `GROUP` or more.

    Args:
        runs: Those whose scores are written; one without any, for its ground truth is hidden, is
            left out.
        path: The file.
        rows: A board's rows of the runs by their folders, whose names are written as `model`;
            None: the models' names are.
    """
    with writing(path), pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        lines: list[dict[str, object]] = []
        for run in runs:
            if (run.folder / SCORES).exists():
                run_row = row(run) if rows is None else rows[run.folder]
                lines += _lines(run, run_row, run_row.model if rows is None else run_row.name)
            if len(lines) >= GROUP or run is runs[-1]:
                writer.write_table(pa.Table.from_pylist(lines, schema=SCHEMA))
                lines.clear()


def _lines(run: Run, run_row: Row, model: str) -> Iterator[dict[str, object]]:
    same = {key: getattr(run_row, key) for key in ("run", "task", "split", "protocol")}
    same["model"] = model
    units = list(run.units())
    derived: Sequence[Metric] = ()
    if any(run_row.headline not in unit.scores for unit in units):
        with suppress(HarnessError):  # neither the task's module nor its data is here
            derived = metrics_for(run, units, name=run_row.headline)
    for unit in units:
        line = {
            **same,
            "unit": unit.unit,
            "sample": unit.samples[0],
            "group": unit.group,
            "categories": list(unit.categories.items()),
            "failed": unit.failed,
        }
        for name, score in unit.scores.items():
            if isinstance(score, Mean):
                yield {**line, "metric": name, "score": score.value, "weight": score.weight}
            elif isinstance(score, Ratio):
                part, whole = score.numerator, score.denominator
                share = part / whole if whole else None
                yield {**line, "metric": name, "score": share, "weight": whole}
        if derived and run_row.headline not in unit.scores:
            value = value_of(derived, [unit], run_row.headline)
            yield {**line, "metric": run_row.headline, "score": value, "weight": 1.0}

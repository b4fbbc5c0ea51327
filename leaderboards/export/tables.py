"""Export runs as flat rows (CSV, JSON) and as one Parquet table of the scores of all units."""

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
from harness.scores import Mean, Metric, Ratio, UnitScore, value_of
from harness.store.atomic import writing

SAMPLES = "samples.parquet"
"""File name of the Parquet table of a published board."""
MIN_GROUP_ROWS = 2**16
"""Rows of a row group of Parquet, which may have more; small groups cost more than their rows."""
UNIT_COLUMNS = ("unit", "sample", "group", "categories", "failed", "metric", "score", "weight")
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
    """Return a row as flat plain data: what was run, the headline, its interval, the counts."""
    low, high = run_row.interval or (None, None)
    leading = ("run", "model", "model_spec", "task", "task_version", "split", "protocol", "subset")
    final = ("n_total", "n_failed", "seconds", "seed", "commit", "device", "data", "config_hash")
    return {
        **{name: getattr(run_row, name) for name in leading},
        "headline": run_row.headline,
        "value": run_row.value,
        "low": low,
        "high": high,
        **{name: getattr(run_row, name) for name in final},
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
    """Write the scores of all units of runs as Parquet (`SCHEMA`), in row groups.

    Args:
        runs: Finished runs; a run without scores, because its ground truth is hidden, is left out.
        path: The file.
        rows: A board's rows by the runs' folders, whose names are written as `model`; None: write
            the models' own names.
    """
    with writing(path), pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        columns = _columns()
        for run in runs:
            if (run.folder / SCORES).exists():
                run_row = row(run) if rows is None else rows[run.folder]
                _add(columns, run, run_row, run_row.model if rows is None else run_row.name)
            if len(columns["run"]) >= MIN_GROUP_ROWS or run is runs[-1]:
                writer.write_table(_table(columns))
                columns = _columns()


def _table(columns: Mapping[str, list[Any]]) -> pa.Table:
    arrays = []
    for field in SCHEMA:
        if pa.types.is_dictionary(field.type):  # made at once, it takes ten times as long
            arrays.append(pa.array(columns[field.name], pa.string()).dictionary_encode())
        else:
            arrays.append(pa.array(columns[field.name], field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _columns() -> dict[str, list[Any]]:
    return {name: [] for name in SCHEMA.names}


def _add(columns: dict[str, list[Any]], run: Run, run_row: Row, model: str) -> None:
    """Append a line for each unit and metric of a run to the columns."""
    units = list(run.units())
    derived: Sequence[Metric] = ()
    if any(run_row.headline not in unit.scores for unit in units):
        with suppress(HarnessError):  # neither the task's module nor its data is here
            derived = metrics_for(run, units, name=run_row.headline)
    lines: list[tuple[Any, ...]] = []
    for unit in units:
        of_unit = (unit.unit, unit.samples[0], unit.group, list(unit.categories.items()))
        numbers = _numbers(unit, derived, run_row.headline)
        lines.extend((*of_unit, unit.failed, *number) for number in numbers)
    if not lines:
        return
    for name, values in zip(UNIT_COLUMNS, zip(*lines, strict=True), strict=True):
        columns[name] += values
    columns["model"] += [model] * len(lines)
    for name in ("run", "task", "split", "protocol"):
        columns[name] += [getattr(run_row, name)] * len(lines)


def _numbers(
    unit: UnitScore, derived: Sequence[Metric], headline: str
) -> Iterator[tuple[str, float | None, float]]:
    """Yield (name, number, weight) of each metric, a derived headline last; none of a corpus."""
    for name, score in unit.scores.items():
        if isinstance(score, Mean):
            yield name, score.value, score.weight
        elif isinstance(score, Ratio):
            value = score.numerator / score.denominator if score.denominator else None
            yield name, value, score.denominator
    if derived and headline not in unit.scores:
        yield headline, value_of(derived, [unit], headline), 1.0

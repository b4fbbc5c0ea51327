"""Export runs in the format of another program, by the format's name (`harness runs export`)."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.leaderboards.export import every_eval_ever, fiftyone, hub, logs, mirrors, tables
from harness.leaderboards.row import row
from harness.leaderboards.runs import open_runs


def exported(
    folders: Sequence[Path],
    form: str,
    out: str,
    *,
    datasets: Mapping[str, str],
    source: str | None,
    data_root: Path | None,
    tell: Callable[[str], None],
) -> dict[Path, str]:
    """Return the text of each file of a format; Parquet, W&B and MLflow are written at once.

    Args:
        folders: Folders with runs.
        form: Name of the format, as `harness runs export --to` has it.
        out: A file or folder; for mlflow a tracking URI.
        datasets: Names of the hub's data sets by task.
        source: A public address of the runs.
        data_root: Folder of the data, for logs with samples; None: the runs' own.
        tell: Receives notes.

    Raises:
        UsageError: two runs would be written to one file with different texts.
    """
    runs, out_path = open_runs(folders), Path(out)
    files: dict[Path, str] = {}
    match form:
        case "csv":
            files[out_path] = to_csv(
                [{**tables.plain(board_row), **board_row.metrics} for board_row in map(row, runs)]
            )
        case "json":
            files[out_path] = json.dumps(tables.to_json([row(run) for run in runs])) + "\n"
        case "parquet":
            tables.write_samples(runs, out_path)
        case "model-card":
            files[out_path] = hub.model_card(runs, datasets)
        case "huggingface":
            results = hub.eval_results(runs, datasets, source)
            files = {out_path / ".eval_results" / name: text for name, text in results.items()}
        case "eval-yaml":
            files = {out_path / path: text for path, text in hub.benchmarks(runs, datasets).items()}
        case "every-eval-ever":
            eee = every_eval_ever.every_eval_ever(runs, source, data_root, tell)
            files = _distinct((out_path / path, text) for path, text in eee)
        case "inspect":
            named_logs = (logs.inspect_log(run, data_root) for run in runs)
            files = _distinct((out_path / name, text) for name, text in named_logs)
        case "vlmevalkit":
            files = _distinct(
                (out_path / path, to_csv(rows, "\t" if path.suffix == ".tsv" else ","))
                for run in runs
                for path, rows in logs.vlmevalkit_tables(run, data_root)
            )
        case "fiftyone":
            fiftyone.to_fiftyone(runs, out_path, data_root, tell)
        case "wandb":
            mirrors.to_wandb(runs, out_path)
        case "mlflow":
            mirrors.to_mlflow(runs, out)
    return files


def _distinct(pairs: Iterable[tuple[Path, str]]) -> dict[Path, str]:
    """Return texts by their path; raise UsageError if a path has two different texts."""
    files: dict[Path, str] = {}
    for path, text in pairs:
        if files.setdefault(path, text) != text:
            raise UsageError(
                f"the file {path}",
                expected="one run",
                found="two",
                fix="Export them one by one, each with its own --out.",
            )
    return files


def to_csv(rows: Sequence[Mapping[str, object]], delimiter: str = ",") -> str:
    """Return rows as CSV with a column for each key of any row, or as TSV with all cells quoted."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for cells in rows for name in cells))
    dialect = csv.unix_dialect if delimiter == "\t" else csv.excel
    writer = csv.DictWriter(text, names, dialect=dialect, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()

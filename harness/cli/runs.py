"""`harness runs`: index, search, average, clean up and export runs.

The actions are `index`, `query`, `repeats`, `gc` and `export`; `samples` has its own module.
"""

import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.output import say, show_json, write_text
from harness.cli.tables import number, show_columns
from harness.errors import MissingDependency, UsageError, counted, printable
from harness.record import MANIFEST, SET_ASIDE_NAME, runs_below

if TYPE_CHECKING:
    from harness.leaderboards.history.database import Database
    from harness.statistics.analytic import Estimate
    from harness.statistics.variance import SeededScore


def _database(arguments: Namespace, *, write: bool = False) -> "Database":
    """Open the index of `--db`, of $HARNESS_DB, or of this machine."""
    try:
        from harness.leaderboards.history.database import Database, default_url
    except ModuleNotFoundError as error:
        raise MissingDependency.package(error.name, extra="db") from error
    return Database(arguments.db or os.environ.get("HARNESS_DB") or default_url(), write=write)


def index(arguments: Namespace) -> int:
    """Write runs into the index; exit code 1 if some cannot be read."""
    folders = [run for folder in arguments.runs for run in runs_below(folder)]
    n_indexed, refused = _database(arguments, write=True).index(folders)
    for folder, error in refused.items():
        say(f"left out: {folder}: {error}", to=sys.stderr)
    print(f"{counted(n_indexed, 'run')} indexed, {len(refused)} left out")
    return int(bool(refused))


def query(arguments: Namespace) -> int:
    """Print runs of the index, the newest first."""
    try:
        since = arguments.since and datetime.fromisoformat(arguments.since)
    except ValueError as error:
        raise UsageError(
            "--since", expected="a date such as 2026-01-31", found=arguments.since
        ) from error
    records = _database(arguments).query(
        task=arguments.task,
        model=arguments.model,
        commit=arguments.commit,
        since=since and (since if since.tzinfo else since.replace(tzinfo=UTC)),
        metric=arguments.metric,
        limit=arguments.limit,
    )
    plain = [
        {**record, "finished_at": f"{record['finished_at']:%Y-%m-%dT%H:%M:%S}"}
        for record in records
    ]
    if arguments.json:
        show_json(plain)
    elif arguments.csv:
        from harness.leaderboards.export.formats import to_csv

        print(printable(to_csv(plain)), end="")
    else:
        rows = [("finished", "task", "split", "metric", "value", "commit", "model")]
        for record in plain:
            split = " ".join(filter(None, (record["split"], record["subset"])))
            value, commit = number(record["value"]), (record["commit"] or "–")[:7]
            day, task, metric = record["finished_at"][:10], record["task"], record["metric"]
            rows.append((day, task, split, metric, value, commit, record["model"]))
        show_columns(rows)
    return 0


def repeats(arguments: Namespace) -> int:
    """Print the mean score of runs that differ in seeds, the best of k, and shares of variance."""
    from harness.leaderboards.repeats import repeats as read

    report = read(arguments.runs, metric=arguments.metric, data_root=arguments.data)
    if arguments.json:
        show_json(asdict(report))
        return 0

    def show(name: str, estimate: "Estimate | SeededScore", over: tuple[str, ...]) -> None:
        low, high = map(number, estimate.interval)
        about = f"95 % interval {low} – {high} over {' and '.join(over)}"
        say(f"{name} {number(estimate.value)}, {about}")

    say(f"{report.task}, {report.metric}")
    show(f"avg@{sum(map(len, report.runs.values()))}", report.score, report.score.over)
    for k, estimate in report.best.items():
        show(f"pass@{k}" if report.binary else f"best of {k}", estimate, ("samples",))
    parts = report.components.of_score()
    total = sum(parts.values()) or 1.0
    measured = [name for name in parts if getattr(report.components, name) is not None]
    shares = ", ".join(f"{name} {parts[name] / total:.0%}" for name in measured)
    say(f"variance of one run's score: {shares}")
    for name, values in report.values.items():
        say(f"{name}: {', '.join(map(number, values))}")
    say(*report.notes)
    return 0


def gc(arguments: Namespace) -> int:
    """List, and with `--delete` remove, runs that were set aside and rows of missing folders."""
    word = "deleted" if arguments.delete else "would be deleted"
    folders = [folder for runs_folder in arguments.runs for folder in _set_aside(runs_folder)]
    for folder in folders:
        if arguments.delete:
            shutil.rmtree(folder)
        say(f"{word}: {folder}")
    lost_folders = _database(arguments).lost(delete=arguments.delete)
    for lost_folder in lost_folders:
        say(f"{word} from the index: {lost_folder}")
    if not folders and not lost_folders:
        print("nothing to delete")
    elif not arguments.delete:
        print("`--delete` does it")
    return 0


def export(arguments: Namespace) -> int:
    """Write runs in the format of another program."""
    from harness.leaderboards.export.formats import exported

    files = exported(
        arguments.runs,
        arguments.to,
        arguments.out,
        datasets=dict(text.partition("=")[::2] for text in arguments.dataset or ()),
        source=arguments.source,
        data_root=arguments.data,
        tell=partial(say, to=sys.stderr),
    )
    for path, text in files.items():
        write_text(path, text)
    say(*(files or [arguments.out]))
    return 0


def _set_aside(folder: Path) -> Iterator[Path]:
    """Yield the folders of runs that `--restart` has set aside."""
    for path in sorted(folder.rglob("*.old*")):
        if SET_ASIDE_NAME.match(path.name) and (path / MANIFEST).is_file():
            yield path

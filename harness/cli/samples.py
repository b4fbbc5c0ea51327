"""`harness runs samples`: list a run's samples, sorted by score, with their questions."""

from argparse import Namespace
from collections.abc import Collection
from pathlib import Path
from shlex import quote
from string import ascii_uppercase
from typing import Any

from harness.cli.output import note, say, show_json
from harness.cli.tables import number, show_columns
from harness.errors import HarnessError, UsageError
from harness.leaderboards.runs import metrics_for, task_of
from harness.plugins import plugin_errors
from harness.record import Run
from harness.run.batching import samples_of
from harness.scores import value_of
from harness.types import Sample


def samples(arguments: Namespace) -> int:
    """Print the first sample of each scored unit, with score, failure and question.

    `--sort` gives the order; samples that do not count for the metric come last.

    Raises:
        UsageError: the run lacks the metric, or it has no scores by sample.
    """
    run = Run.open(arguments.run)
    run.check_files()
    units = list(run.units())
    name = arguments.metric or run.results["headline"]
    if name not in run.results["metrics"]:
        raise UsageError(
            f"--metric {name}", expected=", ".join(run.results["metrics"]), found="another"
        )
    metrics = metrics_for(run, units, name=name, data_root=arguments.data)
    if any(metric.corpus is not None for metric in metrics):
        raise UsageError(f"metric {name}", expected="one with a score of each sample", found="none")
    rows: list[dict[str, Any]] = [
        {
            "sample": unit.samples[0],
            "score": value_of(metrics, [unit], name),
            "failed": unit.failed,
            "categories": dict(unit.categories),
        }
        for unit in units
        if unit.failed or not arguments.failed
    ]
    if arguments.sort == "id":
        rows.sort(key=lambda row: str(row["sample"]))
    else:  # `score`: the worst first; `-score`: the best; without a score: last
        is_ascending = (metrics[-1].better == "higher") == (arguments.sort == "score")
        sign = 1 if is_ascending else -1
        rows.sort(key=lambda row: (row["score"] is None, sign * (row["score"] or 0.0)))
    rows = rows[: arguments.limit]
    question_of_sample = questions(run, {row["sample"] for row in rows}, arguments.data)
    rows = [{**row, "question": question_of_sample.get(row["sample"])} for row in rows]
    if arguments.json:
        show_json(rows)
        return 0
    lines: list[tuple[str, ...]] = [(name, "failed", "sample", "question [categories]")]
    for row in rows:
        tags = ", ".join(f"{key} {value}" for key, value in row["categories"].items())
        text = " ".join(filter(None, [row["question"], f"[{tags}]" if tags else ""]))
        lines.append((number(row["score"]), str(row["failed"] or ""), row["sample"], text))
    if not any(row["failed"] for row in rows):  # the column would be empty
        lines = [(score, sample, text) for score, _, sample, text in lines]
    show_columns(lines)
    if rows:
        say("", f"next: harness explain {quote(str(run.folder))} {quote(rows[0]['sample'])}")
    return 0


def questions(run: Run, ids: Collection[str], data_root: Path | None) -> dict[str, str]:
    """Return the questions of samples by id, with options; without the data none, and a note."""
    missing, by_id = set(ids), {}
    try:
        task = task_of(run, data_root)
        with plugin_errors(f"the samples of {task.name}"):
            for sample in samples_of(task):
                if sample.id in missing:
                    missing.discard(sample.id)
                    by_id[sample.id] = _worded(sample)
                if not missing:
                    break
    except HarnessError as error:
        note(f"without questions: {error}")
    return by_id


def _worded(sample: Sample) -> str:
    """Return a question in one line, with its options."""
    lettered = zip(ascii_uppercase, sample.query.options, strict=False)
    options = ", ".join(f"{letter} {text}" for letter, text in lettered)
    text = " ".join(sample.query.text.split())
    return f"{text} ({options})" if options else text

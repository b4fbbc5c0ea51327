"""`harness runs samples`: a run's samples by their scores, with their questions."""

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
    """Print each unit's first sample with its score and failures, the worst first."""
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
    listed: list[dict[str, Any]] = [
        {
            "sample": unit.samples[0],
            "score": value_of(metrics, [unit], name),
            "failed": unit.failed,
            "categories": dict(unit.categories),
        }
        for unit in units
        if unit.failed or not arguments.failed
    ]
    sign = 1 if (metrics[-1].better == "higher") == (arguments.sort == "score") else -1
    if arguments.sort == "id":
        listed.sort(key=lambda row: str(row["sample"]))
    else:  # samples that do not count for this metric come last
        listed.sort(key=lambda row: (row["score"] is None, sign * (row["score"] or 0.0)))
    listed = listed[: arguments.limit]
    asked = questions(run, {row["sample"] for row in listed}, arguments.data)
    listed = [{**row, "question": asked.get(row["sample"])} for row in listed]
    if arguments.json:
        show_json(listed)
        return 0
    lines: list[tuple[str, ...]] = [(name, "failed", "sample", "question [categories]")]
    for row in listed:
        tags = ", ".join(f"{key} {value}" for key, value in row["categories"].items())
        text = " ".join(filter(None, [row["question"], f"[{tags}]" if tags else ""]))
        lines.append((number(row["score"]), str(row["failed"] or ""), row["sample"], text))
    if not any(failed for _, failed, *_ in lines[1:]):
        lines = [(score, sample, text) for score, _, sample, text in lines]
    show_columns(lines)
    if listed:
        say("", f"next: harness explain {quote(str(run.folder))} {quote(listed[0]['sample'])}")
    return 0


def questions(run: Run, ids: Collection[str], data_root: Path | None) -> dict[str, str]:
    """Return the questions of samples by their ids, with options; none where the data is not here.

    A note on standard error says why there are none.
    """
    left, asked = set(ids), {}
    try:
        task = task_of(run, data_root)
        with plugin_errors(f"the samples of {task.name}"):
            for sample in samples_of(task):
                if sample.id in left:
                    left.discard(sample.id)
                    asked[sample.id] = _worded(sample)
                if not left:
                    break
    except HarnessError as error:
        note(f"without questions: {error}")
    return asked


def _worded(sample: Sample) -> str:
    """Return a question in one line, with its options."""
    lettered = zip(ascii_uppercase, sample.query.options, strict=False)
    options = ", ".join(f"{letter} {text}" for letter, text in lettered)
    words = " ".join(sample.query.text.split())
    return f"{words} ({options})" if options else words

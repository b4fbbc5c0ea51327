"""`harness samples`: the ids of a run's samples by their scores."""

from argparse import Namespace
from shlex import quote
from typing import Any

from harness.cli.output import say, show_json
from harness.cli.tables import number, show_columns
from harness.errors import UsageError
from harness.leaderboards.runs import metrics_for
from harness.record import Run
from harness.scores import value_of


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
    found: list[dict[str, Any]] = [
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
        found.sort(key=lambda one: str(one["sample"]))
    else:  # samples that do not count for this metric come last
        found.sort(key=lambda one: (one["score"] is None, sign * (one["score"] or 0.0)))
    found = found[: arguments.limit]
    if arguments.json:
        show_json(found)
        return 0
    rows = [(name, "failed", "sample", "categories")]
    for one in found:
        tags = ", ".join(f"{key} {value}" for key, value in one["categories"].items())
        rows.append((number(one["score"]), str(one["failed"] or ""), one["sample"], tags))
    show_columns(rows)
    if found:
        say("", f"next: harness explain {quote(str(run.folder))} {quote(found[0]['sample'])}")
    return 0

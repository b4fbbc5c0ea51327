"""`harness samples`: the ids of a run's samples by their scores."""

from argparse import Namespace
from pathlib import Path
from shlex import quote

from harness.cli.output import show_json
from harness.cli.tables import number, show_columns
from harness.errors import UsageError
from harness.leaderboards.runs import metrics_for, value_of
from harness.record import Run


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
    root = run.manifest["data"]["root"]
    metrics = metrics_for(run, units, name=name, data_root=Path(root) if root else None)
    if any(metric.corpus is not None for metric in metrics):
        raise UsageError(f"metric {name}", expected="one with a score of each sample", found="none")
    found = [
        {
            "sample": unit.samples[0],
            "score": value_of(metrics, [unit], name),
            "failed": unit.failed,
            "categories": dict(unit.categories),
        }
        for unit in units
        if unit.failed or not arguments.failed
    ]
    better = metrics[-1].better == ("higher" if arguments.sort == "score" else "lower")
    if arguments.sort == "id":
        found.sort(key=lambda one: str(one["sample"]))
    else:
        # Samples that do not count for this metric come last.
        scores = [one["score"] for one in found]
        order = sorted(
            range(len(found)),
            key=lambda i: (scores[i] is None, (scores[i] or 0.0) * (1 if better else -1)),
        )
        found = [found[i] for i in order]
    found = found[: arguments.limit]
    if arguments.json:
        show_json(found)
        return 0
    rows = [(name, "failed", "sample", "categories")]
    for one in found:
        tags = ", ".join(f"{key} {value}" for key, value in one["categories"].items())
        rows.append((number(one["score"]), str(one["failed"] or ""), str(one["sample"]), tags))
    show_columns(rows)
    if found:
        print(f"\nnext: harness explain {quote(str(run.folder))} {quote(str(found[0]['sample']))}")
    return 0

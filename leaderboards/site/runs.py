"""Collect a site's data about one run, and about the training that made its checkpoint."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import groupby
from typing import Any

from harness.errors import HarnessError, StoreError
from harness.frames import uniform
from harness.leaderboards.ranked_table import Entry
from harness.leaderboards.rollouts import ROLLOUTS, Rollout, choose_groups, groups_of
from harness.record import Run
from harness.trainer import CURVE, Curve

MAX_STEPS = 400  # of a training's curves
MAX_GROUPS = 24  # of a training's rollouts
HIDDEN_FIELDS = ("version", "data", "deviations")
"""Fields of a manifest that are left out: `data` names a folder of the machine, and the row has the
deviations."""


def run_page(entry: Entry) -> dict[str, Any]:
    """Return the value of `r<number>.js` (docs/design/site.md)."""
    run = entry.run
    manifest = {key: value for key, value in run.manifest.items() if key not in HIDDEN_FIELDS}
    page: dict[str, Any] = {"manifest": manifest, "timing": _timing(run)}
    training_folder = entry.row.training.place if entry.row.training else None
    if training_folder is not None:
        with suppress(HarnessError):
            page["curve"] = curve_columns(Curve(training_folder / CURVE).read())
        if (training_folder / ROLLOUTS).is_file():
            with suppress(HarnessError):
                groups = choose_groups(groups_of(training_folder / ROLLOUTS), limit=MAX_GROUPS)
                page["rollouts"] = [
                    {
                        "step": group.step,
                        "task": group.task,
                        "sample": group.sample,
                        "rollouts": [_rollout(rollout) for rollout in group.rollouts],
                    }
                    for group in groups
                ]
    return page


def curve_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """Return the numbers of a training as columns of about `MAX_STEPS` steps, `step` among them.

    Steps with a number that at most a tenth of the steps have, such as an evaluation's, are all
    kept.
    """
    numbers = dict.fromkeys(
        name for row in rows for name, value in row.items() if _finite(value) is not None
    )
    merged = [
        {key: value for row in group for key, value in row.items()}
        for _, group in groupby(rows, key=lambda row: row["step"])
    ]
    sampled = set(uniform(range(len(merged)), MAX_STEPS))
    rare = {
        name for name in numbers if sum(name in row for row in merged) <= max(1, len(merged) // 10)
    }
    chosen = [
        row
        for index, row in enumerate(merged)
        if index in sampled or any(name in row for name in rare)
    ]
    return {name: [_finite(row.get(name)) for row in chosen] for name in numbers}


def _finite(value: object) -> float | None:
    """Return a finite number; None for other values."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < float("inf") else None


def _rollout(rollout: Rollout) -> dict[str, Any]:
    return {
        "text": rollout.text,
        "second": rollout.second,
        "terms": dict(rollout.components),
        "advantage": rollout.advantage,
        "tokens": rollout.tokens,
        "cut": rollout.cut,
        "unread": rollout.unread,
        "blocks": [asdict(block) for block in rollout.blocks],
    }


def _timing(run: Run) -> dict[str, Any]:
    """Return seconds by stage; empty if the file is damaged, because no score depends on it."""
    with suppress(StoreError, TypeError, KeyError, AttributeError):
        plain = run.timing
        stages: dict[str, float] = {}
        for attempt in plain.get("attempts", ()):
            for name, stage in attempt.get("stages", {}).items():
                stages[name] = stages.get(name, 0.0) + float(stage.get("seconds", 0.0))
        return {
            "wall_seconds": plain.get("wall_seconds"),
            "samples_per_second": plain.get("samples_per_second"),
            "attempts": len(plain.get("attempts", ())),
            "workers": [attempt.get("workers") for attempt in plain.get("attempts", ())][-1:],
            "stages": stages,
        }
    return {}

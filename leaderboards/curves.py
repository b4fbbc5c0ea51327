"""The logs of trainings, by step, as one figure; seeds of one recipe are a line and its range."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from harness.errors import StoreError, UsageError
from harness.leaderboards.figure import Panel, Points, figure
from harness.run.contamination import Training

OUTSIDE = re.compile(r",(?![^()]*\))")
"""A comma between names; one inside a task's SPEC belongs to its name."""
LARGEST = 1e12
"""Larger values are left out, and so are those that are not finite."""
LONGEST = 60
"""Maximum number of letters of a recipe's name; a longer one is replaced by the folder."""


def draw_together(
    trainings: Sequence[Training],
    texts: Sequence[str] | None,
    *,
    smooth: int,
    tell: Callable[[str], None],
) -> tuple[str, dict[str, list[Path]]]:
    """Return numbers of several trainings as SVG, and the folders of each recipe by its name.

    Args:
        trainings: with logged steps.
        texts: names of numbers, each text several with commas; with none the error lists them.
        smooth: steps of a moving average.
        tell: is told which trainings lack a number.

    Raises:
        UsageError: a number that no training logged.
        StoreError: a training logged nothing, or a number cannot be drawn.
    """
    rows = {training.folder: _rows(training) for training in trainings}
    recipes = _recipes(trainings)
    panels = []
    for name in _requested_names(texts, rows):
        points = {folder: _points(folder, logged, name) for folder, logged in rows.items()}
        lines = {
            label: [points[folder] for folder in folders if points[folder]]
            for label, folders in recipes.items()
        }
        panels.append(Panel(name, lines))
    _tell_lacking(panels, recipes, tell)
    return figure(panels, smooth=smooth), recipes


def draw_curves(training: Training, wanted: re.Pattern[str]) -> str | None:
    """Return the numbers of one training whose names match, as SVG; None if none was logged."""
    rows = training.curve.read()
    names = sorted({name for row in rows for name in row if wanted.fullmatch(name)})
    label = str(training.manifest["method"]["name"])
    drawn = [(name, _points(training.folder, rows, name)) for name in names]
    panels = [Panel(name, {label: [points]}) for name, points in drawn if points]
    return figure(panels) if panels else None


def _rows(training: Training) -> list[dict[str, object]]:
    """Read the logged rows of a training; raise StoreError if there are none."""
    rows = training.curve.read()
    if not rows:
        raise StoreError(
            f"file {training.curve.path}", expected="at least one logged step", found="none"
        )
    return rows


def _requested_names(
    texts: Sequence[str] | None, rows: Mapping[Path, Sequence[Mapping[str, object]]]
) -> list[str]:
    """The names of `--y`, each of which some training has logged."""
    known = sorted(
        {name for several in rows.values() for row in several for name in row} - {"step"}
    )
    names = [name for text in texts or () for name in OUTSIDE.split(text) if name]
    unknown = [name for name in names if name not in known]
    if not names or unknown:
        near = [match for name in unknown for match in get_close_matches(name, known, n=3)]
        raise UsageError(
            "--y",
            expected="names that these trainings logged",
            found=", ".join(unknown) or "none",
            fix=f"Did you mean {', '.join(near)}?" if near else f"Logged: {', '.join(known)}.",
        )
    return list(dict.fromkeys(names))


def _points(folder: Path, rows: Sequence[Mapping[str, Any]], name: str) -> Points:
    """Return the values of a number that can be drawn, by step; raise StoreError for no number."""
    points = {}
    for row in rows:
        value = row.get(name)
        if name in row and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise StoreError(
                f"{folder}, step {row['step']}",
                expected=f"a number as {name}",
                found=repr(value)[:60],
            )
        if value is not None and abs(value) <= LARGEST:
            points[row["step"]] = float(value)
    return points


def _recipes(trainings: Sequence[Training]) -> dict[str, list[Path]]:
    """Group the folders of trainings that differ only in their seed, by a name for the group."""
    alike: dict[str, list[Training]] = {}
    for training in trainings:
        record = training.manifest
        try:
            key = [
                record["method"]["name"],
                dict(record["method"]["settings"]),
                record["model"] and record["model"]["spec"],
                [task["spec"] for task in record["tasks"]],
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"manifest of {training.folder}",
                expected="the method, model and tasks of a training",
                found=f"{type(error).__name__}: {error}",
            ) from error
        alike.setdefault(json.dumps(key, sort_keys=True), []).append(training)
    several = list(alike.values())
    labels = [_label(group[0], [peers[0] for peers in several]) for group in several]
    return {
        label if labels.count(label) == 1 and len(label) <= LONGEST else str(group[0].folder): [
            training.folder for training in group
        ]
        for label, group in zip(labels, several, strict=True)
    }


def _label(training: Training, others: Sequence[Training]) -> str:
    """A method's name, with the settings in which its trainings here differ."""
    method = training.manifest["method"]
    same = [
        peer.manifest["method"]["settings"]
        for peer in others
        if peer.manifest["method"]["name"] == method["name"]
    ]
    names = sorted({name for settings in same for name in settings})
    differing = [
        f"{name}={method['settings'].get(name)}"
        for name in names
        if any(settings.get(name) != same[0].get(name) for settings in same)
    ]
    return f"{method['name']}({', '.join(differing)})" if differing else str(method["name"])


def _tell_lacking(
    panels: Sequence[Panel],
    recipes: Mapping[str, Sequence[Path]],
    tell: Callable[[str], None],
) -> None:
    """Tell what is missing from a panel; raise StoreError if nothing of it can be drawn."""
    for panel in panels:
        if not any(panel.lines.values()):
            raise StoreError(f"logged {panel.title}", expected="a finite number", found="none")
        for label, several in panel.lines.items():
            if several and not set.intersection(*(set(points) for points in several)):
                raise StoreError(
                    f"{panel.title} of {label}",
                    expected=f"steps that all of its {len(several)} trainings logged",
                    found="none",
                )
            if len(several) < len(recipes[label]):
                lacking = len(recipes[label]) - len(several)
                tell(
                    f"{lacking} of {len(recipes[label])} training(s) of {label} logged no "
                    f"{panel.title}"
                )

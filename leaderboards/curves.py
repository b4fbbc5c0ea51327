"""Draw numbers that trainings logged, by step, as an SVG figure with a panel for each number.

Trainings that differ only in their seed are one recipe: a line (the mean) with its range. The
command `harness curves` and model cards call it.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from harness.errors import StoreError, UsageError
from harness.leaderboards.figure import Panel, Points, figure
from harness.provenance import PLUGINS
from harness.run.training_record import Training

NAME_SEPARATOR = re.compile(r",(?![^()]*\))")
"""A comma between names, as in `loss,eval/gIoU(seg(split=val,size=2))`; not one in parentheses."""
MAX_VALUE = 1e12
"""Values that are larger, or not finite, are left out."""
MAX_NAME = 60
"""Maximum number of letters of a recipe's name; a longer one is replaced by the folder."""


def draw_together(
    trainings: Sequence[Training],
    requested: Sequence[str] | None,
    *,
    smooth: int,
    tell: Callable[[str], None],
) -> tuple[str, dict[str, list[Path]]]:
    """Draw numbers of several trainings.

    Args:
        trainings: Trainings with logged steps.
        requested: Names of numbers, several in one text separated by commas.
        smooth: Steps of a moving average.
        tell: Receives a line for each number that some trainings of a recipe did not log.

    Returns:
        The SVG, and the folders of each recipe by its name.

    Raises:
        UsageError: no number is named, or no training logged it; the text lists the logged ones.
        StoreError: a training logged nothing, or a number cannot be drawn.
    """
    rows = {training.folder: _rows(training) for training in trainings}
    recipes = _recipes(trainings)
    panels = []
    for name in _requested_names(requested, rows):
        points = {folder: _points(folder, logged, name) for folder, logged in rows.items()}
        lines = {
            label: [points[folder] for folder in folders if points[folder]]
            for label, folders in recipes.items()
        }
        panels.append(Panel(name, lines))
    _tell_lacking(panels, recipes, tell)
    return figure(panels, smooth=smooth), recipes


def logged_names(trainings: Iterable[Training]) -> list[str]:
    """Return the names of the numbers that trainings logged, in order.

    Raises:
        StoreError: a training logged nothing.
    """
    return _names(map(_rows, trainings))


def _names(logs: Iterable[Iterable[Mapping[str, object]]]) -> list[str]:
    return sorted({name for rows in logs for row in rows for name in row} - {"step"})


def draw_curves(training: Training, pattern: re.Pattern[str]) -> str | None:
    """Draw the numbers of one training whose names match, as SVG; None if none was logged."""
    rows = training.curve.read()
    names = sorted({name for row in rows for name in row if pattern.fullmatch(name)})
    label = str(training.manifest["method"]["name"])
    curves = [(name, _points(training.folder, rows, name)) for name in names]
    panels = [Panel(name, {label: [points]}) for name, points in curves if points]
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
    requested: Sequence[str] | None, rows: Mapping[Path, Sequence[Mapping[str, object]]]
) -> list[str]:
    """Return the names in the texts of `--y`; raise UsageError if no training logged one."""
    logged = _names(rows.values())
    names = [name for text in requested or () for name in NAME_SEPARATOR.split(text) if name]
    unknown = [name for name in names if name not in logged]
    if not names or unknown:
        near = [match for name in unknown for match in get_close_matches(name, logged, n=3)]
        raise UsageError(
            "--y",
            expected="names that these trainings logged",
            found=", ".join(unknown) or "none",
            fix=f"Did you mean {', '.join(near)}?" if near else f"Logged: {', '.join(logged)}.",
        )
    return list(dict.fromkeys(names))


def _points(folder: Path, rows: Sequence[Mapping[str, Any]], name: str) -> Points:
    """Return the drawable values of a number by step; raise StoreError if one is not a number."""
    points = {}
    for row in rows:
        value = row.get(name)
        if name in row and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise StoreError(
                f"{folder}, step {row['step']}",
                expected=f"a number as {name}",
                found=repr(value)[:60],
            )
        if value is not None and abs(value) <= MAX_VALUE:
            points[row["step"]] = float(value)
    return points


def _recipes(trainings: Sequence[Training]) -> dict[str, list[Path]]:
    """Group the folders of trainings that differ only in their seed, by a name for the group."""
    members_by_key: dict[str, list[Training]] = {}
    for training in trainings:
        record = training.manifest
        try:
            key = [
                record["method"]["name"],
                dict(record["method"]["settings"]),
                record["model"] and record["model"]["spec"],
                [task["spec"] for task in record["tasks"]],
                record.get("provenance", {}).get(PLUGINS),
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"manifest of {training.folder}",
                expected="the method, model and tasks of a training",
                found=f"{type(error).__name__}: {error}",
            ) from error
        members_by_key.setdefault(json.dumps(key, sort_keys=True), []).append(training)
    groups = list(members_by_key.values())
    labels = [_label(group[0], [peers[0] for peers in groups]) for group in groups]
    recipes = {}
    for label, group in zip(labels, groups, strict=True):
        is_usable = labels.count(label) == 1 and len(label) <= MAX_NAME
        name = label if is_usable else str(group[0].folder)
        recipes[name] = [training.folder for training in group]
    return recipes


def _label(training: Training, drawn_trainings: Sequence[Training]) -> str:
    """Return a method's name, with the settings in which the drawn trainings of it differ."""
    method = training.manifest["method"]
    recorded = [
        peer.manifest["method"]["settings"]
        for peer in drawn_trainings
        if peer.manifest["method"]["name"] == method["name"]
    ]
    names = sorted({name for settings in recorded for name in settings})
    differing = [
        f"{name}={method['settings'].get(name)}"
        for name in names
        if any(settings.get(name) != recorded[0].get(name) for settings in recorded)
    ]
    return f"{method['name']}({', '.join(differing)})" if differing else str(method["name"])


def _tell_lacking(
    panels: Sequence[Panel],
    recipes: Mapping[str, Sequence[Path]],
    tell: Callable[[str], None],
) -> None:
    """Tell which trainings are missing in a panel; raise StoreError if it cannot be drawn."""
    for panel in panels:
        if not any(panel.lines.values()):
            raise StoreError(f"logged {panel.title}", expected="a finite number", found="none")
        for label, seeds in panel.lines.items():
            if seeds and not set.intersection(*(set(points) for points in seeds)):
                raise StoreError(
                    f"{panel.title} of {label}",
                    expected=f"steps that all of its {len(seeds)} trainings logged",
                    found="none",
                )
            if len(seeds) < len(recipes[label]):
                lacking = len(recipes[label]) - len(seeds)
                tell(
                    f"{lacking} of {len(recipes[label])} training(s) of {label} logged no "
                    f"{panel.title}"
                )

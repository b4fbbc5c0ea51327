"""Compare the dry run's estimates for small networks with what the rehearsals took.

    python benchmarks/estimates.py

docs/rehearsal.md has the seconds and memory of every training and evaluation of the papers' tables
with tiny networks on a CPU. Each one is estimated with the amounts that the rehearsal had: 4
samples a task, 2 steps of 8 responses. Prints the ratios of estimate and measurement.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple
from unittest import mock

from harness.leaderboards import table_commands
from harness.leaderboards.definitions import BoardRow, Definition, definitions
from harness.leaderboards.estimate import Estimate, device_of
from harness.rehearsal.report import _label
from harness.spec import parse

PAGE = Path(__file__).resolve().parents[1] / "docs/rehearsal.md"
POCKET, SAMPLES = 0.0026, 4
AMOUNTS = (
    "max_steps=2",
    "num_generations=4",
    "generation_batch_size=8",
    "per_device_train_batch_size=4",
    "gradient_accumulation_steps=1",
)


class Measured(NamedTuple):
    """A row of the page: a method in a table."""

    trainings: dict[str, float]
    """Seconds by name."""
    evaluations: list[float]
    """Seconds; 0 of one that an earlier row ran."""
    memory: float
    """GB, the largest of them."""


def measured(page: str) -> dict[tuple[str, str, str], Measured]:
    """Return the rows that ran, by paper, table and name."""
    rows: dict[tuple[str, str, str], Measured] = {}
    paper = ""
    for line in page.splitlines():
        if line.startswith("## "):
            paper = re.sub("[^a-z0-9]+", "_", line[3:].lower())
        cells = line.strip("|").split("|")
        if len(cells) != 4 or not re.fullmatch(r" [\d.]+ ", cells[-1]):
            continue
        name, trainings, evaluations, memory = cells
        steps = {key: float(seconds) for key, seconds in re.findall(r"(\w+): (\d+)", trainings)}
        for tables, parts in re.findall(r"\*\*([^*]+)\*\* ((?:(?!; \*\*).)*)", evaluations):
            for bracket, stages in re.findall(r"(?:(\[.*?\]) )?((?:\d+: \d+(?:, )?)+)", parts):
                seconds = [float(text) for text in re.findall(r"\d+: (\d+)", stages)]
                for table in tables.split(", "):
                    label = f"{name.strip()} {bracket}".strip()
                    rows[paper, table, label] = Measured(steps, seconds, float(memory))
    return rows


def estimated(definition: Definition, row: BoardRow) -> tuple[dict[str, Estimate], list[Estimate]]:
    """Return the estimates of a row's trainings, by name, and evaluations, as it was rehearsed."""
    spec, device = parse(row.model), device_of("CPU")
    assert device is not None, "a CPU is among the devices"
    smaller = {
        name: replace(step, set=(*step.set, *AMOUNTS), processes=2)
        for name, step in definition.trainings.items()
    }
    rehearsed = replace(definition, trainings=smaller)
    with (
        mock.patch.object(table_commands, "_samples", return_value=SAMPLES),
        mock.patch.object(table_commands, "size_of", return_value=POCKET),
    ):
        trainings = table_commands.trainings(rehearsed, spec, "data", Path("out"), device)
        evaluations = table_commands.evaluations(rehearsed, row, "data", Path("out"), device)
        return (
            {
                step.name.removeprefix("train "): step.estimate
                for step in trainings
                if step.estimate
            },
            [step.estimate for step in evaluations if step.estimate],
        )


def ratios() -> Iterator[tuple[str, str, float]]:
    """Yield kind, name and the ratio of estimate and measurement, of each one once."""
    rows = measured(PAGE.read_text("utf-8"))
    trained = set()
    for definition in definitions():
        for row in definition.rows:
            place = f"{definition.paper} {definition.table} {_label(row)}"
            run = rows.get((definition.paper, definition.table, _label(row)))
            if run is None:
                continue
            trainings, evaluations = estimated(definition, row)
            for name in trainings.keys() & run.trainings.keys() - trained:
                trained.add(name)
                yield "training", name, trainings[name].hours * 3600 / run.trainings[name]
            if len(evaluations) == len(run.evaluations):
                for estimate, seconds in zip(evaluations, run.evaluations, strict=True):
                    if seconds:
                        yield "evaluation", place, estimate.hours * 3600 / seconds
            several = [estimate.memory for estimate in (*trainings.values(), *evaluations)]
            if several:  # servers answer for the others
                yield "memory", place, max(several) / run.memory


def main() -> None:
    kinds: dict[str, list[tuple[float, str]]] = {}
    for kind, name, ratio in ratios():
        kinds.setdefault(kind, []).append((ratio, name))
    for kind, several in kinds.items():
        several.sort()
        low, *_, high = quantiles([ratio for ratio, _ in several], n=20)
        middle = several[len(several) // 2][0]
        print(
            f"{kind}: {len(several)} estimates, {middle:.1f} times what was measured (median), "
            f"{low:.1f} to {high:.1f} (nine in ten); least {several[0]}, most {several[-1]}"
        )


if __name__ == "__main__":
    main()

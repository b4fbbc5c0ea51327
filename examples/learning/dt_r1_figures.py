"""DT-R1's ablations from what runs and trainings recorded: Table 7's success rates, and Figure 4.

    python examples/learning/dt_r1_figures.py table7 TRAINING …
    python examples/learning/dt_r1_figures.py figure4 RUNS --out figure4.svg

Table 7: the share of rollouts in the last tenth of the steps with a legal order, a valid plan and
no failed block. Figure 4: the headline of each task, and the blocks of code used, by the blocks
allowed, of the runs below a folder (`harness eval … --vary cycles=1,2,3,5,10`).
"""

import argparse
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from harness.leaderboards.figure import Panel, figure
from harness.leaderboards.runs import open_runs
from harness.record import Run
from harness.run.training_record import Training

SUCCESS = "rewards/success"


def success_rate(rows: Iterable[Mapping[str, Any]]) -> float:
    """Return the mean of `rewards/success` over the last tenth of the steps that logged it.

    >>> success_rate([{"rewards/success": value} for value in [0.0] * 18 + [1.0, 0.5]])
    0.75
    """
    values = [row[SUCCESS] for row in rows if SUCCESS in row]
    if not values:
        raise SystemExit(f"no step logged {SUCCESS}: these are no trainings of dt_r1")
    return fmean(values[-math.ceil(len(values) / 10) :])


def blocks_used(run: Run) -> float:
    """Return the mean number of blocks of code that a run's responses have."""
    counts = [
        sum(response.count("</execute>") for response in run.prediction(sample).responses)
        for unit in run.units()
        for sample in unit.samples
    ]
    return fmean(counts)


def figure4(folder: Path) -> list[Panel]:
    """One panel of headlines by task, and one of blocks used, by the blocks that were allowed."""
    scores: dict[str, dict[int, float]] = {}
    used: dict[str, dict[int, float]] = {}
    for run in open_runs(folder):
        task, allowed = run.manifest["task"]["name"], run.manifest["model"]["description"]["cycles"]
        scores.setdefault(task, {})[allowed] = run.results["metrics"][run.results["headline"]]
        used.setdefault(task, {})[allowed] = blocks_used(run)
    return [
        Panel("headline by blocks allowed", {task: [points] for task, points in scores.items()}),
        Panel("blocks used by blocks allowed", {task: [points] for task, points in used.items()}),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=("table7", "figure4"))
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("figure4.svg"))
    given = parser.parse_args()
    if given.kind == "figure4":
        panels = [panel for folder in given.folders for panel in figure4(folder)]
        given.out.write_text(figure(panels), encoding="utf-8")
        print(given.out)
        return
    for folder in given.folders:
        print(f"{success_rate(Training.open(folder).curve.read()):.1%}  {folder}")


if __name__ == "__main__":
    main()

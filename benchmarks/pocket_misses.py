r"""Which single things are missed: those that meet another thing in an image token.

    harness data make shapes --out ROOT --seed 2030 --size 2250 --tasks shapes_referring
    harness eval --model "pocket(retry=false, segmenter=box)" \
        --tasks "shapes_referring(asks=single)" --data ROOT --out RUNS
    python benchmarks/pocket_misses.py RUNS [--save]

Box accuracy by whether the thing that is asked for shares one of the canvas' 6 × 6 image tokens
with another one, by how large it is, and by what it lies on, of all such runs below RUNS together.
The scenes are drawn again from the seed that the data tells.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from harness import plugins
from harness.record import Run, runs_below
from harness.run.batching import samples_of
from harness.scores import Mean
from harness.spec import parse
from harness.trainers.pocket.views import MIN_PIXELS, View
from harness.trainers.pocket.vocabulary import CANVAS
from harness.types import Box
from harness.world.families import draw_scene
from harness.world.scene import BACKGROUNDS

TASK, METRIC = "shapes_referring(asks=single)", "box_accuracy@0.5"
RESULT = Path(__file__).parent / "results" / "pocket_misses.md"
ROWS = ("all", "small", "medium", "large", *(f"on {one} ground" for one in BACKGROUNDS))
MEETS = ("apart", "meets one of another colour", "meets one of its colour")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    opened = [Run.open(folder) for folder in runs_below(given.runs)]
    runs = [run for run in opened if run.manifest["task"]["spec"] == TASK]
    if not runs:
        raise SystemExit(f"{given.runs}: expected runs of {TASK}, found none")
    models = sorted({run.manifest["model"]["spec"] for run in runs})
    if len(models) > 1:
        raise SystemExit(f"{given.runs}: expected runs of one model, found {', '.join(models)}")
    right = defaultdict(list)
    for run in runs:
        for column, row, score in told(run):
            right[row, column].append(score)
            right[row, "all"].append(score)
    seeds = sorted(seed_of(run) for run in runs)
    text = "\n".join(
        [
            f"`{models[0]}`, {TASK}, seeds {seeds}: part of the boxes that are "
            "right (of how many).",
            "",
            *table(right),
        ]
    )
    print(text)
    if given.save:
        RESULT.write_text(f"{text}\n", encoding="utf-8")


def seed_of(run: Run) -> int:
    """The seed of the data that a run was made on."""
    made = Path(run.manifest["data"]["root"]) / "shapes.json"
    return int(json.loads(made.read_text("utf-8"))["seed"])


def told(run: Run) -> Iterator[tuple[str, str, float]]:
    """Of each question its columns and rows in the table, and whether its box is right."""
    root, seed = Path(run.manifest["data"]["root"]), seed_of(run)
    boxes = {
        sample.id: sample.target.answer.boxes
        for sample in samples_of(plugins.build("tasks", parse(TASK), root))
        if sample.target
    }
    for unit in run.units():
        score = unit.scores[METRIC]
        assert isinstance(score, Mean)
        [box] = boxes[unit.unit] or ()
        index = int(unit.unit.split("_")[1])  # referring_INDEX_QUESTION
        scene = draw_scene(seed, family="referring", split="val", index=index)
        view = View(scene, (0,))
        thing = nearest(view, box)
        column = MEETS[met(view, thing)]
        for row in ("all", scene.things[thing].size, f"on {scene.background.kind} ground"):
            yield column, row, score.value


def nearest(view: View, box: Box) -> int:
    """The thing whose box it is."""
    across, down = CANVAS / view.scene.width, CANVAS / view.scene.height
    wanted = np.array(box) * (across, down, across, down)
    return int(np.abs(view.boxes[0] - wanted).sum(1).argmin())


def met(view: View, thing: int) -> int:
    """0: alone in its image tokens; 1: not; 2: with one of its own colour in one of them."""
    things = view.scene.things
    shown = view.shares[0] >= MIN_PIXELS  # things × image tokens
    meets = (shown & shown[thing]).any(1)
    others = [one for one in range(len(things)) if one != thing and meets[one]]
    return bool(others) + any(things[one].colour == things[thing].colour for one in others)


def table(right: Mapping[tuple[str, str], Sequence[float]]) -> Iterator[str]:
    """Rows of means, in markdown."""
    yield "| | all | " + " | ".join(MEETS) + " |"
    yield "| --- " * (2 + len(MEETS)) + "|"
    for row in ROWS:
        cells = (right[row, column] for column in ("all", *MEETS))
        shown = (f"{fmean(one):.3f} ({len(one)})" if one else "" for one in cells)
        yield f"| {row} | " + " | ".join(shown) + " |"


if __name__ == "__main__":
    main()

"""What SpaceR's maps have left to teach, read from the rollouts that its study keeps.

    python benchmarks/maps_read.py RUNS [--data ROOT] [--save]

RUNS is the folder of the study's trainings (`learning.py --methods spacer`), ROOT the data that
they were trained on, beside it: of each that rewards maps, the part of its rollouts that have one,
the part that answer rightly, what the maps of these score, and the part of the groups whose
answers are all right, in which nothing but maps and lengths differs. Of questions with options,
for there a right answer is worth 1 beside its map.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from parts import save
from studies import STUDIES

from harness import plugins
from harness.models.spacer.grammar import has_map
from harness.run.batching import samples_of
from harness.spec import parse
from harness.trainers.video_str.answers import answer
from harness.types import AnswerForm

RESULT = Path(__file__).parent / "results" / "learning" / "spacer_maps.md"
DATA = "data-train-600"
COLUMNS = (
    "training",
    "rollouts",
    "with a map",
    "right",
    "map's score where right",
    "groups",
    "all right",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", type=Path, help=f"{DATA} beside RUNS, unless told otherwise")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    letters = letters_of(given.data or given.runs.parent / DATA)
    found = [
        row(path.parent.name, list(read(path, letters)), letters)
        for path in sorted(given.runs.glob("method-*/rollouts.jsonl"))
    ]
    text = "\n".join(
        [
            "`python benchmarks/maps_read.py RUNS`, of the trainings in `spacer.json`.",
            "",
            f"| {' | '.join(COLUMNS)} |",
            f"|{' --- |' * len(COLUMNS)}",
            *found,
        ]
    )
    print(text)
    if given.save and found:
        save(RESULT, "maps", text)


def letters_of(data: Path) -> dict[str, str]:
    """The right letters of the training's questions with options, by the sample's id."""
    task = plugins.build("tasks", parse(STUDIES["spacer"].tasks), data)
    return {
        sample.id: str(sample.target.answer.choice)
        for sample in samples_of(task)
        if sample.query.form is AnswerForm.CHOICE and sample.target and sample.target.answer
    }


def read(path: Path, letters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The rollouts that a training kept, of questions with options, however they end."""
    with path.open(encoding="utf-8") as lines:
        yield from (one for one in map(json.loads, lines) if one["sample"] in letters)


def row(name: str, rollouts: Sequence[Mapping[str, Any]], letters: Mapping[str, str]) -> str:
    """What is said of one training; a dash where there is nothing to speak of."""
    right = [answer(one["text"]) == letters[one["sample"]] for one in rollouts]
    # The accuracy of a right answer is 1 and its map's score, but 0 where that is 0.
    scores = [
        max(0.0, one["components"]["accuracy"] - 1)
        for one, is_right in zip(rollouts, right, strict=True)
        if is_right and has_map(one["text"])
    ]
    groups = defaultdict(list)
    for one, is_right in zip(rollouts, right, strict=True):
        groups[one["step"], one["sample"]].append(is_right)
    cells = [
        name,
        str(len(rollouts)),
        _mean([bool(has_map(one["text"])) for one in rollouts]),
        _mean(right),
        _mean(scores),
        str(len(groups)),
        _mean([all(one) for one in groups.values()]),
    ]
    return f"| {' | '.join(cells)} |"


def _mean(several: Sequence[float]) -> str:
    return f"{fmean(several):.3f}" if several else "–"


if __name__ == "__main__":
    main()

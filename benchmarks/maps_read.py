"""What SpaceR's maps have left to teach, read from the rollouts that its study keeps.

    python benchmarks/maps_read.py RUNS [--save]

RUNS is the folder of the study's trainings (`learning.py --methods spacer`): of each that rewards
maps, the part of its rollouts that have one, what these score where the answer is right, and the
part of the groups whose answers are all right, in which nothing but maps and lengths differs.
Of questions with options: there a right answer is worth 1, and its map up to 1 more.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from parts import save

RESULT = Path(__file__).parent / "results" / "learning" / "spacer_maps.md"
LETTER = re.compile(r"<answer>\s*[A-Z]\b")
COLUMNS = ("training", "rollouts", "with a map", "right", "map's score where right",
           "groups", "all right")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    found = [row(path.parent.name, list(read(path)))
             for path in sorted(given.runs.glob("method-*/rollouts.jsonl"))]  # fmt: skip
    text = "\n".join([
        "`python benchmarks/maps_read.py RUNS`, of the trainings in `spacer.json`.", "",
        f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}", *found,
    ])  # fmt: skip
    print(text)
    if given.save:
        save(RESULT, "maps", text)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The rollouts that a training kept, of questions that are answered with a letter."""
    with path.open(encoding="utf-8") as lines:
        yield from (one for one in map(json.loads, lines) if LETTER.search(one["text"]))


def row(name: str, rollouts: Sequence[Mapping[str, Any]]) -> str:
    """What is said of one training."""
    right = [one for one in rollouts if one["terms"]["accuracy"] >= 1]
    scores = [one["terms"]["accuracy"] - 1 for one in right if "<map>" in one["text"]]
    groups = defaultdict(list)
    for one in rollouts:
        groups[one["step"], one["sample"]].append(one["terms"]["accuracy"] >= 1)
    cells = [
        name, str(len(rollouts)), f"{fmean('<map>' in one['text'] for one in rollouts):.3f}",
        f"{len(right) / len(rollouts):.3f}", f"{fmean(scores):.3f}",
        str(len(groups)), f"{fmean(map(all, groups.values())):.3f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

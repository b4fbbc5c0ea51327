"""Write scores.json: what the official rewards of SpaceR and Video-R1 say of seeded responses.

    python tests/golden/spatial_rewards/make_rewards.py --official FOLDER

FOLDER holds checkouts `SpaceR` (github.com/OuyangKun10/SpaceR, commit b623af5) and `Video-R1`
(github.com/tulerfeng/Video-R1, commit 59d65c3). Their functions are compiled from there; none of
their code is kept here. What they import and do not need is left out.
"""

import argparse
import ast
import contextlib
import io
import json
import logging
import math
import os
import re
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from responses import TRUE_MAP, cases

SEED, NUMBER = 20250917, 4000
COMMITS = {
    "SpaceR": "b623af54d1d53d4e3b590b65618088809705bb7d",
    "Video-R1": "59d65c347e44efa71be27abf9d89b4a2bb7d1c05",
}
SPACER = "SpaceR/SpaceR-SG-RLVR/src/r1-v/src/open_r1"
VIDEO_R1 = "Video-R1/src/r1-v/src/open_r1"


def functions(path: Path, names: tuple[str, ...], space: dict[str, Any]) -> dict[str, Any]:
    """Compile some functions of a file without running its imports."""
    tree = ast.parse(path.read_text("utf-8"))
    tree.body = [node for node in tree.body if getattr(node, "name", None) in names]
    exec(compile(tree, str(path), "exec"), space)
    return space


def plain_names() -> dict[str, Any]:
    typed = dict.fromkeys(("Coordinate", "ResponseMap", "SolutionMap", "ObjectMap"), Any)
    generic = {
        name: getattr(__import__("typing"), name)
        for name in ("Dict", "List", "Union", "Any", "Set", "Tuple")
    }
    return {
        "re": re,
        "os": os,
        "np": np,
        "math": math,
        "ast": ast,
        "partial": partial,
        "logging": logging,
        "defaultdict": defaultdict,
        "datetime": Clock,
        **generic,
        **typed,
    }


class Clock:
    """The only thing that is asked of a date here."""

    @staticmethod
    def now() -> "Clock":
        return Clock()

    def strftime(self, _: str) -> str:
        return ""


def spacer(folder: Path) -> dict[str, Any]:
    space = functions(
        folder / SPACER / "extract_map.py",
        (
            "_parse_and_validate_coord_pair",
            "_parse_and_validate_coord_list",
            "_process_preformatted_dict",
            "_extract_from_string_robustly",
            "extract_map_data",
            "euclidean_distance",
            "calculate_prediction_score",
        ),
        plain_names(),
    )
    space["MAP_DATA"] = {"video": {"cognitive_map": TRUE_MAP}}
    return functions(folder / SPACER / "SG-RLVR.py", ("accuracy_reward", "format_reward"), space)


def scored(space: dict[str, Any], case: dict[str, Any], **others: Any) -> list[float]:
    completions = [[{"content": case["response"]}]]
    solution = [f"<answer>{case['ground_truth']}</answer>"]
    accuracy = space["accuracy_reward"](
        completions, solution, problem_type=[case["kind"]], **others
    )[0]
    return [float(accuracy), space["format_reward"](completions)[0]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--official", type=Path, required=True)
    folder = parser.parse_args().official
    logging.disable(logging.CRITICAL)
    one = spacer(folder)
    other = functions(
        folder / VIDEO_R1 / "grpo.py", ("accuracy_reward", "format_reward"), plain_names()
    )
    rows: dict[str, list[list[float]]] = {"SpaceR": [], "Video-R1": []}
    with contextlib.redirect_stdout(io.StringIO()):
        for case in cases(SEED, NUMBER):
            rows["SpaceR"].append(scored(one, case, path=["data/video.mp4"]))
            rows["Video-R1"].append(scored(other, case))
    head = {
        "commits": COMMITS,
        "seed": SEED,
        "number": NUMBER,
        "numpy": np.__version__,
        "what": "accuracy and format of each response of responses.cases(seed, number)",
    }
    lines = [f'"{name}": {json.dumps(each, separators=(",", ":"))}' for name, each in rows.items()]
    path = Path(__file__).with_name("scores.json")
    path.write_text(json.dumps(head)[:-1] + ",\n" + ",\n".join(lines) + "}\n", encoding="utf-8")
    print(
        path.name,
        path.stat().st_size,
        {name: np.mean(each, axis=0).tolist() for name, each in rows.items()},
    )


if __name__ == "__main__":
    main()

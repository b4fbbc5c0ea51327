"""Right answers in several wordings: our protocols beside lmms-eval's own tasks.

    python tests/lmms/wordings.py SHAPES HUB

SHAPES is a generated world; HUB is made of it, as hub and cache of Hugging Face would hold the data
of lmms-eval's tasks. Prints the table of docs/lmms-eval.md.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from harness import load_model, load_task
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.run.batching import samples_of, units
from harness.run.scoring import score_unit
from harness.summary import values

TASKS = {"video_mme": "videomme", "mvbench": "mvbench", "vsi_bench": "vsibench"}
SPECS = {"mvbench": "mvbench(protocol=mvbench/lmms)"}
"""Our task by another protocol than its own, which is the authors'."""
SCALE = {"video_mme": 100, "mvbench": 100, "vsi_bench": 1}
CHOICES: dict[str, Callable[[str, str], str]] = {
    "`(B)`": lambda letter, option: f"({letter})",
    "`b`": lambda letter, option: letter.lower(),
    "`B. the option`": lambda letter, option: f"{letter}. {option}",
    "the option alone": lambda letter, option: option,
    "`The answer is B.`": lambda letter, option: f"The answer is {letter}.",
    "`Not A, but B.`": lambda letter, option: f"Not {'BA'[letter == 'B']}, but {letter}.",
    "`B`; to some questions `I do not know.`": lambda letter, option: (
        letter if option < "m" else "I do not know."
    ),
    "`<think>A?</think>B`": lambda letter, option: f"<think>A?</think>{letter}",
    "`<answer>B</answer>`": lambda letter, option: f"<answer>{letter}</answer>",
}
NUMBERS: dict[str, Callable[[str], str]] = {
    "`3.`": lambda number: f"{number}.",
    "`3 metres`": lambda number: f"{number} metres",
    "`There are 3.`": lambda number: f"There are {number}.",
    "`<think>4?</think>3`": lambda number: f"<think>4?</think>{number}",
    "`<answer>3</answer>`": lambda number: f"<answer>{number}</answer>",
}


def lay_out(shapes: Path, hub: Path) -> None:
    """Lay the world out as lmms-eval's videomme, mvbench and vsibench find their data."""
    from lmms_eval.tasks.mvbench.utils import DATA_LIST

    def put(source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    home, rows = hub / "home", "test-00000-of-00001.parquet"
    put(shapes / "video_mme" / "videomme" / rows, hub / "lmms-eval/Video-MME" / rows)
    for video in (shapes / "video_mme/data").glob("*.mp4"):
        put(video, home / "videomme/data" / video.name)
    put(shapes / "vsi_bench" / rows, hub / "nyu-visionx/VSI-Bench" / rows)
    for video in (shapes / "vsi_bench").rglob("*.mp4"):
        put(video, home / "vsibench" / video.relative_to(shapes / "vsi_bench"))
    sets = {"nyu-visionx/VSI-Bench": [("full", "test", "test-*.parquet")]}
    sets["OpenGVLab/MVBench"] = [(name, "train", f"json/{name}.json") for name in DATA_LIST]
    for name, folder in DATA_LIST.items():
        file = shapes / "mvbench" / "json" / f"{name}.json"
        put(file, hub / "OpenGVLab/MVBench/json" / file.name)
        for row in json.loads(file.read_text("utf-8")):
            found = (one for one in (shapes / "mvbench/video").rglob(row["video"]) if one.is_file())
            put(next(found), home / "mvbench_video" / folder / row["video"])
    for name, parts in sets.items():
        lines = ["---", "configs:"]
        for part, split, path in parts:
            lines += [f"- config_name: {part}", "  data_files:"]
            lines += [f"  - split: {split}", f"    path: {path}"]
        (hub / name / "README.md").write_text("\n".join([*lines, "---", ""]))


def shares(shapes: Path, ours: str, text: Callable[[str, str], str]) -> str:
    """Return the headline of both protocols on responses that hold the right answers.

    Args:
        shapes: The generated world.
        ours: Our task.
        text: Puts a right answer into words: a letter and its option, or a number and "".
    """
    from harness.lmms.benchmarks import load_benchmark

    made = load_benchmark(shapes.resolve(), TASKS[ours])
    responses = {
        f"{name}/{place}": text(*right_answer(document))
        for name, one in made.tasks.items()
        for place, document in enumerate(one.eval_docs)
    }
    reader, found = load_model("qwen_vl(backend=stored)"), []
    for spec, scale in ((SPECS.get(ours, ours), 1), (f"lmms:{TASKS[ours]}", SCALE[ours])):
        task = load_task(spec, data=shapes)
        ids = {one.id: _their_id(ours, place, one.id) for place, one in enumerate(samples_of(task))}
        done = [
            score_unit(
                task, unit, [reader.read(one.query, (responses[ids[one.id]],)) for one in unit]
            )
            for unit in units(samples_of(task))
        ]
        found.append(f"{(values(task, done)[task.protocol.headline] or 0) / scale:.2f}")
    return f"{found[0]} / {found[1]}"


def right_answer(document: dict[str, Any]) -> tuple[str, str]:
    """Return the letter of a document's right option and the option, or a number and ""."""
    right = document.get("answer") or document["ground_truth"]
    if "candidates" in document:
        return ascii_uppercase[document["candidates"].index(right)], right
    options = document["options"] or ()
    option = next((one for one in options if one.startswith(f"{right}.")), "")
    return right, option.removeprefix(f"{right}.").strip()


def _their_id(ours: str, place: int, sample: str) -> str:
    if "/" not in sample:  # of one list in one order
        return f"{TASKS[ours]}/{place}"
    return (
        sample if sample.startswith(("mvbench_", "videomme", "vsibench")) else f"mvbench_{sample}"
    )


def rows(shapes: Path) -> Iterator[str]:
    """Yield the rows of the table: ours / lmms-eval's, 1 where all right answers are found."""
    for name, choice in CHOICES.items():
        text = partial(_worded, choice, lambda number: number)
        yield f"| {name} | {' | '.join(shares(shapes, ours, text) for ours in TASKS)} |"
    for name, number in NUMBERS.items():
        text = partial(_worded, lambda letter, option: letter, number)
        yield f"| {name} | | | {shares(shapes, 'vsi_bench', text)} |"


def _worded(
    choice: Callable[[str, str], str], number: Callable[[str], str], right: str, option: str
) -> str:
    return choice(right, option) if option else number(right)


if __name__ == "__main__":
    world, hub = (Path(one).resolve() for one in sys.argv[1:])
    os.environ |= {"HF_HOME": str(hub / "home"), "HF_HUB_OFFLINE": "1"}
    ensure_torchvision()
    lay_out(world, hub)
    os.chdir(hub)  # a folder of a data set's name takes the hub's place
    print("\n".join(rows(world)))

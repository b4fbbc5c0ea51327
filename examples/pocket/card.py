"""The numbers of pocket's card: `harness eval` on unseen scenes of `shapes`.

    python examples/pocket/card.py [--model SPEC] [--seed N] [--size N] [--runs DIR] [--save]

Beside the model itself: with grey images, with other questions' images, and made to answer from
another question's reasoning. Every number comes from a run folder of `harness eval`; the commands
are printed as they run, and a run that is there already is not made again.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.spec import parse

RESULT = Path(__file__).parent / "card.md"
WAYS = {
    "own": "{name}{own}",
    "grey": "{name}(backend=ablation(images=grey){more})",
    "swapped": "{name}(backend=ablation(images=swapped){more})",
    "reasoning": "{name}(backend=ablation(reasoning=swapped){more})",
}
TITLES = {
    "own": "pocket",
    "grey": "grey images",
    "swapped": "images of other questions",
    "reasoning": "reasoning of other questions",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A number of the card, and the task and metric that it is."""

    title: str
    task: str
    metric: str
    aim: float | None = None


REFERRING = "shapes_referring(asks={})"
LINES = (
    Line("one thing: box accuracy at 0.5", REFERRING.format("single"), "box_accuracy@0.5", 0.95),
    Line("one thing: gIoU", REFERRING.format("single"), "gIoU", 0.75),
    Line("several: box F1 at 0.5", REFERRING.format("several"), "box_f1@0.5", 0.7),
    Line("reasoning: gIoU", REFERRING.format("reasoning"), "gIoU", 0.55),
    Line("counting: accuracy", "counting", "accuracy", 0.8),
    Line("relations and order: accuracy", "shapes_qa(part=relations)", "choice_accuracy", 0.8),
    Line("all choices: accuracy", "shapes_qa(part=choices)", "choice_accuracy"),
    Line("numbers within 10 %", "shapes_qa(part=numbers)", "number_within_10", 0.6),
    Line("ReasonSeg layout: gIoU", "reason_seg", "gIoU"),
    Line("MeViS layout: J&F", "mevis", "J&F", 0.55),
)
BROKEN_DOWN = {
    "one thing: box accuracy at 0.5": ("kind", "level"),
    "all choices: accuracy": ("kind",),
    "numbers within 10 %": ("kind",),
}
"""Lines that are also told by what is asked, or by how difficult it is."""
DATA = {"shapes_referring": 3, "shapes_qa": 1, "counting": 1, "reason_seg": 1, "mevis": 1}
"""What is made, and how many times as large: a third of what refers to things is of each line."""


def main() -> None:
    """Make the runs and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    # First responses count: what is in the grammar only when asked again is not.
    parser.add_argument("--model", default="pocket(retry=false)", help="NAME or NAME(settings)")
    parser.add_argument("--seed", type=int, default=2025)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--runs", type=Path, default=Path("runs/pocket_card"))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    data = given.runs / f"data-{given.seed}-{given.size}"
    for task, times in DATA.items():
        root = data / task
        if not (root / "shapes.json").exists():
            harness(
                "data",
                "make",
                "shapes",
                "--out",
                str(root),
                "--seed",
                str(given.seed),
                "--size",
                str(times * given.size),
                "--tasks",
                task,
            )
    ways = given.ways.split(",")
    runs = given.runs / f"runs-{given.seed}-{given.size}"
    results = {way: evaluated(given.model, way, data, runs / way) for way in ways}
    text = "\n".join([*table(results, given), *broken_down(results[ways[0]], TITLES[ways[0]])])
    print(text)
    if given.save:
        RESULT.write_text(text + "\n", encoding="utf-8")


def evaluated(model: str, way: str, data: Path, out: Path) -> dict[str, Mapping[str, Any]]:
    """The results of every task, by its SPEC."""
    for made in DATA:
        lines = [line.task for line in LINES if line.task.startswith(made)]
        harness(
            "eval",
            "--model",
            spec(model, way),
            "--tasks",
            ",".join(dict.fromkeys(lines)),
            "--data",
            str(data / made),
            "--out",
            str(out),
        )
    found = {}
    for path in sorted(out.rglob("results.json")):
        manifest = json.loads(path.with_name("manifest.json").read_text("utf-8"))
        if manifest["model"]["spec"] != spec(model, way):
            continue  # of another model, in the same folder
        found[manifest["task"]["spec"]] = json.loads(path.read_text("utf-8"))
    return found


def spec(model: str, way: str) -> str:
    """The model's SPEC with its images or its reasoning changed, as manifests write it.

    >>> spec("pocket(segmenter=box, seed=1)", "grey")
    'pocket(backend=ablation(images=grey),segmenter=box,seed=1)'
    """
    name, _, rest = str(parse(model)).partition("(")
    inner = rest.removesuffix(")")
    more = f",{inner}" if inner else ""
    return WAYS[way].format(name=name, own=f"({inner})" if inner else "", more=more)


def table(results: Mapping[str, Mapping[str, Any]], given: Any) -> Iterator[str]:
    """The card's table, in markdown."""
    ways = list(results)
    yield (
        f"`{given.model}` on `shapes`, split val, seed {given.seed}: {given.size} samples a "
        "task, and three times as many that refer to things."
    )
    yield ""
    yield "| | aim | n | " + " | ".join(TITLES[way] for way in ways) + " |"
    yield "| --- | --- " + "| --- " * (1 + len(ways)) + "|"
    for line in LINES:
        count = results[ways[0]][line.task]["n_total"]
        cells = [cell(results[way][line.task], line.metric) for way in ways]
        yield f"| {line.title} | {line.aim or ''} | {count} | " + " | ".join(cells) + " |"
    cells = [f"{valid(results[way]):.3f}" for way in ways]
    yield "| responses in the grammar | 0.98 | | " + " | ".join(cells) + " |"


def broken_down(results: Mapping[str, Mapping[str, Any]], title: str) -> Iterator[str]:
    """A table of what is behind some of the lines, in markdown."""
    yield ""
    yield f"| | n | {title} |"
    yield "| --- | --- | --- |"
    for line in LINES:
        for by in BROKEN_DOWN.get(line.title, ()):
            for value, part in results[line.task]["breakdowns"][by].items():
                found = part["metrics"][line.metric]
                yield f"| {line.title}, {by} {value} | {part['n']} | {found:.3f} |"


def cell(result: Mapping[str, Any], metric: str) -> str:
    """A number with its interval."""
    low, high = result["intervals"][metric]
    return f"{result['metrics'][metric]:.3f} ({low:.3f} to {high:.3f})"


def valid(results: Mapping[str, Mapping[str, Any]]) -> float:
    """The share of samples whose response was read."""
    total = sum(result["n_total"] for result in results.values())
    return 1 - sum(result["n_failed"] for result in results.values()) / float(total)


def harness(*arguments: str) -> None:
    """Run a command, which is printed."""
    print(f"$ harness {shlex.join(arguments)}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "harness", *arguments], check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()

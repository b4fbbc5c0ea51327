"""Seconds and memory of commands as samples and runs grow.

    python benchmarks/growth.py [--counts 1000,10000,100000] [--kinds choices,masks] [--save]
    python benchmarks/growth.py --runs 10000 [--db URL] [--save]

Choices are rows of MindCube, and masks are rectangles of ReasonSeg, of images that are generated
once and linked. Responses are stored ones, a fifth of them wrong by chance, so that nothing waits
for a network. Each command is a process of its own: its seconds, those of processor time, and its
largest resident memory. `resume`: seconds from the start of the command, repeated after the run was
killed, to the first sample that it adds.

With `--runs`, so many run folders of 20 choices, each of its own model, and their index, an SQLite
file or the database of URL (PostgreSQL): each command is run twice.
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import numpy as np
from PIL import Image
from steps import RESULTS, save_part

from harness import provenance
from harness.files import content_hash
from harness.store.checksums import CHECKSUMS

SIZE, IMAGES = (320, 240), 64
SQUARE = {"bbox_2d": [100, 100, 600, 600], "point_2d": [300, 300], "label": "thing"}
WRONG = {**SQUARE, "bbox_2d": [0, 0, 200, 200]}
READER = "qwen_vl(prompt=locate,backend=stored(coordinates=normalized_1000),segmenter=box)"
SHARE_WRONG = 0.2


@dataclass(frozen=True)
class Cost:
    """Cost of a process."""

    seconds: float
    cpu: float
    """Seconds of processor time."""
    mib: float
    """Largest resident memory."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--counts", default="1000,10000,100000")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--runs", type=int)
    parser.add_argument("--db", help="an empty database; else an SQLite file")
    parser.add_argument("--folder", type=Path, help="where data and runs stay; else they are gone")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    counts = [int(count) for count in given.counts.split(",")]
    if given.runs is not None:
        with TemporaryDirectory() as folder:
            costs = {given.runs: many_runs(given.folder or Path(folder), given.runs, given.db)}
        report("runs" if given.db is None else "runs, PostgreSQL", costs, given.save)
        return
    for kind in given.kinds.split(","):
        with TemporaryDirectory() as folder:
            place = (given.folder or Path(folder)) / kind
            costs = {count: measure(kind, place / str(count), count) for count in counts}
        report(kind, costs, given.save)


def report(title: str, costs: Mapping[int, Mapping[str, Cost]], save: bool) -> None:
    """Print costs, and save them if asked to."""
    text = table(costs)
    print(f"{title}\n{text}", flush=True)
    if save:
        machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
        save_part(
            RESULTS / "growth.md", title, f"{machine}, {provenance.collect()['commit']}\n\n{text}"
        )


def table(costs: Mapping[int, Mapping[str, Cost]]) -> str:
    """Write costs as Markdown: a row a command, columns by number of samples."""
    counts = list(costs)
    head = " | ".join(f"{count:,}: s, of it CPU, MiB" for count in counts)
    lines = [f"| command | {head} |", "|---" * (len(counts) + 1) + "|"]
    for name in costs[counts[0]]:
        cells = (costs[count][name] for count in counts)
        row = " | ".join(f"{one.seconds:.1f}, {one.cpu:.1f}, {one.mib:.0f}" for one in cells)
        lines.append(f"| {name} | {row} |")
    return "\n".join(lines)


def measure(kind: str, folder: Path, count: int) -> dict[str, Cost]:
    """Return the cost of each command on `count` samples."""
    make, task = KINDS[kind]
    data, costs = folder / "data", dict[str, Cost]()
    make(data, folder, count)

    def harness(name: str, *arguments: object) -> None:
        costs[name] = cost_of(command(*arguments))
        print(f"  {kind} {count} {name}: {costs[name]}", file=sys.stderr, flush=True)

    given = ("--tasks", task, "--data", data)
    replay = f"replay(file='{folder}/first.jsonl',model={READER})"
    evaluate = ("eval", "--model", replay, *given, "--out", folder / "runs")
    harness("eval", *evaluate)
    stored = ("--predictions", folder / "second.jsonl", "--model", READER)
    harness("score", "score", *stored, *given, "--name", "other", "--out", folder / "runs")
    first, second = sorted(place.parent for place in (folder / "runs").rglob("results.json"))
    harness("score again", "score", first)
    harness("board build", "board", "build", "--runs", folder / "runs", "--out", folder / "board")
    harness("board site", "board", "site", "--runs", folder / "runs", "--out", folder / "site")
    harness("diff", "diff", first, second, "--data", data)
    harness("board keep", "board", "keep", "--runs", first, "--out", folder / "kept")
    gate = ("--baseline", folder / "kept", "--candidate", first)
    harness("board check", "board", "check", *gate)
    costs["resume"] = resumed([*evaluate[:-1], folder / "killed"], folder / "killed", count)
    return costs


def many_runs(folder: Path, count: int, url: str | None) -> dict[str, Cost]:
    """Return the cost of commands on `count` runs and their index, the first and second time."""
    db, runs, data = url or f"sqlite:///{folder}/index.sqlite", folder / "runs", folder / "data"
    choices(data, folder, 20)
    given = ("--tasks", "mindcube", "--data", data, "--out", folder / "made")
    replay = f"replay(file='{folder}/first.jsonl',model={READER})"
    cost_of(command("eval", "--model", replay, *given))
    (made,) = (place.parent for place in (folder / "made").rglob("results.json"))
    for number in range(count):
        place = runs / f"model{number % 100}" / str(number)
        shutil.copytree(made, place)
        name = f"model_{number}"
        model = {"name": name, "spec": name, "description": {"name": name}}
        changes: dict[str, dict[str, object]] = {
            "manifest.json": {"model": model},
            "results.json": {"model": name, "model_spec": name},
        }
        checksums = json.loads((place / CHECKSUMS).read_text("utf-8"))
        for file, change in changes.items():
            record = json.loads((place / file).read_text("utf-8")) | change
            (place / file).write_text(json.dumps(record), "utf-8")
            checksums["files"][file] = content_hash(place / file).hex()
        (place / CHECKSUMS).write_text(json.dumps(checksums), "utf-8")
    costs = {"runs index": cost_of(command("runs", "index", "--db", db, runs))}
    board = ("--runs", runs, "--db", db)
    lines = {
        "runs index, again": ("runs", "index", "--db", db, runs),
        "runs query": ("runs", "query", "--db", db, "--task", "mindcube", "--limit", 50),
        "board build": ("board", "build", *board, "--out", folder / "board"),
        "board site": ("board", "site", *board, "--out", folder / "site"),
    }
    for name, line in lines.items():
        for when in (", first", ""):
            costs[name + when] = cost_of(command(*line))
            print(
                f"  {count} runs, {name}{when}: {costs[name + when]}", file=sys.stderr, flush=True
            )
    return costs


def command(*arguments: object) -> list[str]:
    """Return the command line of `harness` with these arguments."""
    return [sys.executable, "-m", "harness", *map(str, arguments)]


def started(line: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # Users' interpreters keep compiled modules; images of containers often turn that off.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    quiet = subprocess.DEVNULL
    return subprocess.Popen(line, stdout=quiet, stderr=subprocess.PIPE, env=environment)


def cost_of(line: Sequence[str]) -> Cost:
    """Run a command to its end; return its cost."""
    begun = monotonic()
    process = started(line)
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(line)} ended with {process.returncode}:\n{said[-2000:]}")
    cpu = usage.ru_utime + usage.ru_stime
    return Cost(monotonic() - begun, cpu, usage.ru_maxrss / 1024)


def resumed(evaluate: Sequence[object], folder: Path, count: int) -> Cost:
    """Kill a run on its way, repeat it, and return the cost up to the first new sample."""

    def journalled() -> int:
        return sum(file.stat().st_size for file in folder.rglob("samples.*.jsonl"))

    whole = count * 100  # bytes of a journal's lines, at least
    process = started(command(*evaluate))
    while journalled() < whole / 2:
        if process.poll() is not None:
            raise SystemExit(f"the run of {count} samples ended before it could be killed")
        sleep(0.01)
    process.kill()
    process.wait()
    before, begun = journalled(), monotonic()
    process = started(command(*evaluate))
    while journalled() == before:
        sleep(0.01)
    seconds = monotonic() - begun
    os.kill(process.pid, signal.SIGKILL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = -signal.SIGKILL
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def images(folder: Path) -> list[Path]:
    """Write `IMAGES` images of blots as JPEG."""
    folder.mkdir(parents=True)
    paths = [folder / f"{number:03d}.jpg" for number in range(IMAGES)]
    for number, path in enumerate(paths):
        blots = np.random.default_rng(number).integers(0, 256, (12, 16, 3), dtype=np.uint8)
        Image.fromarray(blots).resize(SIZE).save(path, quality=85)
    return paths


def write_responses(folder: Path, rows: Mapping[str, tuple[str, str]]) -> None:
    """Write two files of responses; a row has a right and a wrong one."""
    for name in ("first", "second"):
        draw = random.Random(name)
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for id_, (right, wrong) in rows.items():
                response = wrong if draw.random() < SHARE_WRONG else right
                file.write(json.dumps({"id": id_, "response": response}) + "\n")


def choices(data: Path, folder: Path, count: int) -> None:
    """Write `count` questions in MindCube's layout, two images each."""
    root = data / "mindcube" / "data"
    views = [str(path.relative_to(root)) for path in images(root / "other_all_image")]
    (root / "raw").mkdir()
    rows = {}
    with (root / "raw" / "MindCube_tinybench.jsonl").open("w", encoding="utf-8") as file:
        for number in range(count):
            id_ = f"around_group{number:06d}_q0_1"
            question = f"Case {number}: what is on the left? A. a box B. a ball C. a cup"
            shown = [views[number % IMAGES], views[number // IMAGES % IMAGES]]
            row = {"id": id_, "images": shown, "question": question, "gt_answer": "A"}
            file.write(json.dumps(row) + "\n")
            rows[id_] = ("<answer>A</answer>", "<answer>B</answer>")
    write_responses(folder, rows)


def masks(data: Path, folder: Path, count: int) -> None:
    """Write `count` images with a target each in ReasonSeg's layout."""
    root, sources = data / "reason_seg" / "ReasonSeg" / "val", images(folder / "images")
    root.mkdir(parents=True)
    across, down = SIZE[0] / 1000, SIZE[1] / 1000
    corners = [[100, 100], [600, 100], [600, 600], [100, 600]]
    target = {
        "label": "target",
        "labels": ["target"],
        "shape_type": "polygon",
        "points": [[x * across, y * down] for x, y in corners],
        "group_id": None,
        "flags": {},
    }
    rows = {}
    for number in range(count):
        id_ = f"{number:06d}"
        os.link(sources[number % IMAGES], root / f"{id_}.jpg")
        annotation = {"text": [f"thing {number}"], "is_sentence": False, "shapes": [target]}
        (root / f"{id_}.json").write_text(json.dumps(annotation))
        rows[id_] = (
            f"<answer>{json.dumps([SQUARE])}</answer>",
            f"<answer>{json.dumps([WRONG])}</answer>",
        )
    write_responses(folder, rows)


KINDS: Mapping[str, tuple[Callable[[Path, Path, int], None], str]] = {
    "choices": (choices, "mindcube"),
    "masks": (masks, "reason_seg"),
}
"""Writers of data and responses, and the task."""


if __name__ == "__main__":
    main()

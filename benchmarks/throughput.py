"""How fast answers come: lmms-eval's and ours on the same checkpoint and samples, in one run.

    python benchmarks/throughput.py --lmms PYTHON [--samples N] [--batch N] [--repeats N] [--save]

PYTHON is the interpreter of an environment in which `lmms-eval==0.7.3` is installed, and `decord`,
which its Qwen2.5-VL imports. Both sides get the same images, prompts, limit of new tokens,
threads, batch size, weights in bfloat16 (in which lmms-eval loads them) and transformers' own
choice of attention, and decode greedily. They take turns, each time in a new process, which loads
and answers one batch of other questions first. lmms-eval is given all requests at once, ours as
many batches as its backend asks for (eight).

Seconds: of lmms-eval, those within `generate_until`, from the list of requests to the last
response. Of ours, those from the first batch that is planned until the last one is read,
journalled and scored: `harness.run.evaluate`, as `harness eval` calls it. Loading is outside of
both. `busy` is the share of them within the network's forward pass. `whole` are the samples a
second of the whole call (`simple_evaluate` with a built model; `evaluate` with a loaded one), which
also reads the task, hashes the weights (ours), scores and collects.

`--alike` is the case in which rolling has nothing to win: images of one size, and responses cut off
at 16 tokens, of which most end together.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import mixed_lengths
from busy import Busy
from steps import RESULTS, save_part

from harness import plugins
from harness.errors import HarnessError, MissingDependency
from harness.models.backends.checkpoint import find
from harness.models.pipeline import PromptedModel
from harness.provenance import device
from harness.run.evaluate import evaluate
from harness.run.options import NullProgress, Options
from harness.spec import parse
from harness.task import Task

HERE = Path(__file__).resolve().parent
VERSION = "0.7.3"
NUMBER = re.compile(r"[0-9]+")
NEAR = 2  # of pocket's 168 pixels a side
ALIKE = 0.8  # the share of equal responses below which a comparison says nothing
LONGER = 0.05  # how much more one side may write, as a share
SQUARE, SHORT = (168, 168), 16  # the image and the longest response of `--alike`
MODEL = (
    "pocket(checkpoint={checkpoint},segmenter=box,propagator=still,batch_size={batch},"
    "retry=false,max_new_tokens={max_new_tokens},"
    "backend=transformers(dtype=bfloat16,device={device},"
    "min_pixels={min_pixels},max_pixels={max_pixels}))"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lmms", metavar="PYTHON", help="of an environment with lmms-eval")
    parser.add_argument("--checkpoint", default="pocket", help="a Qwen2.5-VL checkpoint")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--samples", type=int, default=192)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--max-new-tokens", type=int, default=160)
    parser.add_argument("--alike", action="store_true", help="images of one size, short responses")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        settings, result = given.child
        result.write_text(json.dumps(ours(json.loads(settings.read_text("utf-8")))), "utf-8")
        return
    if not 1 <= given.batch <= given.samples:
        parser.error(f"--samples {given.samples}: a batch of --batch {given.batch} needs more")
    try:
        check_lmms(given.lmms)
        text = measure(given)
    except HarnessError as error:
        sys.exit(f"error: {error}")
    print(text)
    if given.save:
        side = "lmms-eval, alike" if given.alike else "lmms-eval"
        save_part(RESULTS / "throughput.md", f"{side}, batches of {given.batch}", text)


def check_lmms(python: str | None) -> None:
    """Raise MissingDependency unless this interpreter has the release that is compared with."""
    code = "from importlib.metadata import version; print(version('lmms-eval'))"
    found = f"no program {python}" if python else "no --lmms"
    if python and shutil.which(python):
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        found = done.stdout.strip() or "none in that environment"
    if found != VERSION:
        install = f"python -m venv E; E/bin/pip install lmms-eval=={VERSION} decord"
        raise MissingDependency(
            "the comparison",
            expected=f"lmms-eval {VERSION} in an environment of its own",
            found=found,
            fix=f"{install}; then --lmms E/bin/python",
        )


def measure(given: argparse.Namespace) -> str:
    """Make the samples, let the sides take turns, and tell what was found."""
    settings = {
        "checkpoint": str(find(given.checkpoint).resolve()),
        "device": given.device,
        "batch": given.batch,
        "threads": given.threads,
        "max_new_tokens": SHORT if given.alike else given.max_new_tokens,
        "min_pixels": mixed_lengths.MIN_PIXELS,
        "max_pixels": mixed_lengths.MAX_PIXELS,
    }
    with tempfile.TemporaryDirectory() as scratch:
        model = model_of(settings)
        for name, seed, samples in (("set", 0, given.samples), ("warm", 1, given.batch)):
            folder = Path(scratch) / name
            mixed_lengths.write(
                folder,
                seed=seed,
                samples=samples,
                prompt=lambda query: model.requests(query)[0].text,
                sizes=(SQUARE,) if given.alike else mixed_lengths.SIZES,
            )
            settings[name] = str(folder)
        python = str(Path(shutil.which(given.lmms) or given.lmms).absolute())
        sides = {
            "ours": [sys.executable, __file__, "--child"],
            "lmms": [python, str(HERE / "throughput_lmms.py")],
        }
        runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
        for turn in range(given.repeats):
            for side in list(sides) if turn % 2 == 0 else reversed(sides):
                run = child(sides[side], settings, Path(scratch))
                runs[side].append(run)
                print(
                    f"{side:5}{given.samples / run['window']:8.2f} samples/s, "
                    f"{run['busy'] / run['window']:.3f} busy",
                    flush=True,
                )
    return compared(given, runs)


def child(line: Sequence[str], settings: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
    """What one side measured, in a process of its own."""
    requested, result = scratch / "settings.json", scratch / "result.json"
    requested.write_text(json.dumps(settings), encoding="utf-8")
    result.unlink(missing_ok=True)
    set_here = {
        "PYTHONPATH": str(HERE.parent),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(settings["threads"]),
        "HF_DATASETS_CACHE": str(scratch / "datasets"),
    }
    done = subprocess.run(
        [*line, str(requested), str(result)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=os.environ | set_here,
        check=False,
        cwd=scratch,
    )
    if done.returncode or not result.is_file():
        raise HarnessError(
            f"{Path(line[1]).name} ended with exit code {done.returncode}:\n{done.stderr[-3000:]}"
        )
    plain: dict[str, Any] = json.loads(result.read_text("utf-8"))
    return plain


def model_of(settings: Mapping[str, Any]) -> PromptedModel:
    """The model `pocket`, shown images as large as they are, its boxes taken for masks."""
    model: PromptedModel = plugins.build("models", parse(MODEL.format(**settings)))
    return replace(model, prompt=replace(model.prompt, resize=None), words_resize=None)


@dataclass
class Watch(NullProgress):
    """Takes the time from the first planned batch to the last one that is done."""

    began: float = 0.0
    ended: float = 0.0

    def start(self, name: str, total: int, done: int) -> None:
        self.began = perf_counter()

    def advance(self, samples: int, failed: int, headline: float | None) -> None:
        self.ended = perf_counter()


def ours(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Our side."""
    import torch

    torch.set_num_threads(settings["threads"])
    model = model_of(settings)
    model.prepare()
    busy = Busy(model.chat.network)
    evaluated(mixed_lengths.task(Path(settings["warm"])), model)
    busy.reset()
    return evaluated(mixed_lengths.task(Path(settings["set"])), model) | busy.found()


def evaluated(task: Task, model: PromptedModel) -> dict[str, Any]:
    """Seconds of the whole evaluation and of its predictions, and the responses by id."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        place, start = Path(folder) / "run", perf_counter()
        run = evaluate(task, model, place, Options(), model_spec=model.name, progress=watch)
        whole = perf_counter() - start
        responses = {one.id: "".join(run.prediction(one.id).responses) for one in task.samples()}
    return {"window": watch.ended - watch.began, "whole": whole, "responses": responses}


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median, and the least and the most."""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def alike(one: Mapping[str, str], other: Mapping[str, str]) -> float:
    """The share of responses that are equal, or differ by numbers that are next to each other.

    In bfloat16 logits of neighbouring coordinates are often equal, and then the padding decides;
    long lists drift apart from there.
    """
    return sum(nearly(one[key], other.get(key, "")) for key in one) / len(one)


def nearly(one: str, other: str) -> bool:
    """Whether two responses are the same words with the same numbers, give or take `NEAR`.

    >>> nearly("red circle 40 62: left", "red circle 41 62: left"), nearly("A", "B")
    (True, False)
    """
    ours, theirs = (NUMBER.split(text.strip()) for text in (one, other))
    numbers = zip(NUMBER.findall(one), NUMBER.findall(other), strict=False)
    return ours == theirs and all(abs(int(a) - int(b)) <= NEAR for a, b in numbers)


def compared(given: argparse.Namespace, runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the command, the table of both sides, and whether they did the same."""
    mine, theirs = runs["ours"], runs["lmms"]
    turns = list(zip(mine, theirs, strict=True))
    same = min(alike(one["responses"], other["responses"]) for one, other in turns)
    written = [sum(map(len, side[0]["responses"].values())) for side in (mine, theirs)]
    longer = written[0] / written[1] - 1
    requested = mine[0]["prompts"] == theirs[0]["prompts"]
    side = "--lmms PYTHON --alike" if given.alike else "--lmms PYTHON"
    typed = {**vars(given), "checkpoint": Path(given.checkpoint).name}
    names = ("samples", "batch", "repeats", "threads", "checkpoint", "device")
    line = " ".join(f"--{name} {typed[name]}" for name in names)
    place = device() if given.device != "cpu" else f"{os.cpu_count()} cores, {platform.machine()}"
    lines = [
        f"`python benchmarks/throughput.py {side} {line}` on {place}; median (least to most) "
        f"of {given.repeats} turns.",
        "",
        "| | samples/s | busy | prompt passes | token passes | whole, samples/s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, several in ((f"lmms-eval {theirs[0]['version']}", theirs), ("harness", mine)):
        lines.append(
            f"| {name} | {spread([given.samples / one['window'] for one in several])} | "
            f"{spread([one['busy'] / one['window'] for one in several], 3)} | "
            f"{several[0]['prefills']} | {several[0]['steps']} | "
            f"{spread([given.samples / one['whole'] for one in several])} |"
        )
    ratios, wholes = (
        spread([other[seconds] / one[seconds] for one, other in turns])
        for seconds in ("window", "whole")
    )
    lines += [
        "",
        f"Ratio, the median of the turns' ratios: {ratios}; of whole calls {wholes}.",
        f"Equal responses, up to {NEAR} in a number: {same:.1%}; characters written: ours "
        f"{longer:+.1%}; prompts, token by token: {'equal' if requested else 'NOT EQUAL'}.",
    ]
    if same < ALIKE or not requested or abs(longer) > LONGER:
        lines.append("**VOID: the two sides do not answer the same questions in the same way.**")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

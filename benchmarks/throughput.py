"""How fast answers come: lmms-eval's and ours on the same checkpoint and samples, in one run.

    python benchmarks/throughput.py --lmms PYTHON [--batch 1,8,32] [--threads 1,2] [--save]

PYTHON is the interpreter of an environment in which `lmms-eval==0.7.3` is installed, and `decord`,
which its Qwen2.5-VL imports. Both sides get the same images, prompts, limit of new tokens,
threads, batch size, weights in bfloat16 (in which lmms-eval loads them) and transformers' own
choice of attention, and decode greedily. Each side is one process, which loads the network and
answers two batches of other questions before a cell of the table; then they take turns, and the
other one waits. lmms-eval is given all requests at once, ours as many batches as its backend asks
for (eight).

Seconds: of lmms-eval, those within `generate_until`, from the list of requests to the last
response. Of ours, those from the first batch that is planned until the last one is read,
journalled and scored: `harness.run.evaluate`, as `harness eval` calls it. Loading is outside of
both. Whole calls are `simple_evaluate` with a built model, and `evaluate` with a loaded one, which
also read the task, hash the weights (ours), score and collect.

Lengths are `mixed` (`mixed_lengths.py`) or `equal`: images of one size, and responses cut off at 16
tokens, of which most end together, so that continuous batching has nothing to win.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import mixed_lengths
from busy import Busy, serve
from steps import RESULTS, processor, save_part

from harness import plugins
from harness.errors import HarnessError, MissingDependency
from harness.models.backends import continuous_batching
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
SQUARE, SHORT = (168, 168), 16  # the image and the longest response of equal lengths
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
    parser.add_argument("--samples", type=int, default=96)
    parser.add_argument("--lengths", default="mixed,equal")
    parser.add_argument("--batch", default="1,8,32", help="numbers of requests at once")
    parser.add_argument("--threads", default="1,2", help="numbers of threads")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=160)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        serve(Ours().measure)
        return
    try:
        check_lmms(options.lmms)
        text = measure(options)
    except HarnessError as error:
        sys.exit(f"error: {error}")
    print(text)
    if options.save:
        save_part(RESULTS / "throughput.md", "lmms-eval", text)


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


def measure(options: argparse.Namespace) -> str:
    """Make the samples, let the sides take turns, and return the table."""
    batches = [int(number) for number in options.batch.split(",")]
    common = {
        "checkpoint": str(find(options.checkpoint).resolve()),
        "device": options.device,
        "min_pixels": mixed_lengths.MIN_PIXELS,
        "max_pixels": mixed_lengths.MAX_PIXELS,
    }
    lengths, threads = options.lengths.split(","), map(int, options.threads.split(","))
    with tempfile.TemporaryDirectory() as scratch:
        sets = {
            length: written_sets(
                Path(scratch) / length, common, options, batches, equal=length == "equal"
            )
            for length in lengths
        }
        python = str(Path(shutil.which(options.lmms) or options.lmms).absolute())
        sides = [
            Side("ours", [sys.executable, __file__, "--child"], Path(scratch)),
            Side("lmms", [python, str(HERE / "throughput_lmms.py")], Path(scratch)),
        ]
        try:
            rows = []
            for length, batch, number in product(lengths, batches, threads):
                own = {"batch": batch, "threads": number}
                own["warm"] = str(Path(scratch) / length / f"warm{batch}")
                runs = turns(sides, common | sets[length] | own, options.repeats)
                rows.append(row(f"{length}, {batch}, {number}", runs, options.samples))
                print(rows[-1], flush=True)
        finally:
            for side in sides:
                side.close()
    return table(options, rows)


def written_sets(
    folder: Path,
    common: Mapping[str, Any],
    options: argparse.Namespace,
    batches: Sequence[int],
    *,
    equal: bool,
) -> dict[str, Any]:
    """Write the questions and those to warm up with; return their settings."""
    limit = SHORT if equal else options.max_new_tokens
    model = model_of({**common, "batch": 1, "max_new_tokens": limit})
    others = [(f"warm{batch}", 1, 2 * batch) for batch in batches]
    for name, seed, samples in [("set", 0, options.samples), *others]:
        mixed_lengths.write(
            folder / name,
            seed=seed,
            samples=samples,
            prompt=lambda query: model.requests(query)[0].text,
            sizes=(SQUARE,) if equal else mixed_lengths.SIZES,
        )
    return {"set": str(folder / "set"), "max_new_tokens": limit}


class Side:
    """A process that measures on request, and waits otherwise."""

    def __init__(self, name: str, line: Sequence[str], scratch: Path) -> None:
        self.name, self._log, self._result = name, scratch / f"{name}.log", scratch / f"{name}.json"
        variables = {
            "PYTHONPATH": str(HERE.parent),
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_CACHE": str(scratch / "datasets"),
        }
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                line,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                text=True,
                env=os.environ | variables,
                cwd=scratch,
            )

    def measure(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the process measured with these settings."""
        self._result.unlink(missing_ok=True)
        assert self._process.stdin is not None, "it was opened with a pipe"
        print(
            json.dumps({**settings, "result": str(self._result)}),
            file=self._process.stdin,
            flush=True,
        )
        while not self._result.is_file():
            if self._process.poll() is not None:
                raise HarnessError(f"{self.name} ended:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.05)
        result: dict[str, Any] = json.loads(self._result.read_text("utf-8"))
        return result

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()


def turns(
    sides: Sequence[Side], settings: Mapping[str, Any], repeats: int
) -> list[list[dict[str, Any]]]:
    """Return what each side measured in each turn; every other turn begins with the other side."""
    runs: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    for turn in range(repeats):
        for side in sides if turn % 2 == 0 else reversed(sides):
            runs[side.name].append(side.measure(settings))
    return list(runs.values())


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


class Ours:
    """Our side; it keeps the model of a cell of the table."""

    def __init__(self) -> None:
        self._settings: Mapping[str, Any] = {}

    def measure(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Evaluate once; a cell's first time after a model was loaded and warmed up."""
        import torch

        if settings != self._settings:
            self._settings, self._model = settings, model_of(settings)
            self._model.prepare()
            torch.set_num_threads(settings["threads"])  # after loading, which chooses a number
            self._busy = Busy(self._model.chat.network)
            self._busy.count_steps(continuous_batching, "_step")
            evaluated(mixed_lengths.task(Path(settings["warm"])), self._model)
        self._busy.reset()
        return evaluated(mixed_lengths.task(Path(settings["set"])), self._model) | (
            self._busy.found()
        )


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


def row(name: str, runs: Sequence[Sequence[Mapping[str, Any]]], samples: int) -> str:
    """Return a line of the table; VOID where the sides did not do the same."""
    ours, theirs = runs
    pairs = list(zip(ours, theirs, strict=True))
    same = min(alike(mine["responses"], other["responses"]) for mine, other in pairs)
    characters = [sum(map(len, side[0]["responses"].values())) for side in runs]
    valid = (
        same >= ALIKE
        and ours[0]["prompts"] == theirs[0]["prompts"]
        and abs(characters[0] / characters[1] - 1) <= LONGER
    )
    ratios, wholes = (
        spread([other[seconds] / mine[seconds] for mine, other in pairs])
        for seconds in ("window", "whole")
    )
    rates = [f"{samples / median(run['window'] for run in side):.1f}" for side in (theirs, ours)]
    passes = [f"{side[0]['prefills']} + {side[0]['steps']}" for side in (theirs, ours)]
    columns = [name, *rates, ratios, wholes, *passes, f"{same:.0%}" if valid else "VOID"]
    return f"| {' | '.join(columns)} |"


def table(options: argparse.Namespace, rows: Sequence[str]) -> str:
    """Return the command, the processor and all rows."""
    names = ("samples", "repeats", "lengths", "batch", "threads", "device")
    line = " ".join(f"--{name} {getattr(options, name)}" for name in names)
    place = device() if options.device != "cpu" else processor()
    columns = (
        "lengths, batch, threads",
        f"lmms-eval {VERSION}, samples/s",
        "harness, samples/s",
        "ratio",
        "ratio of whole calls",
        "its prompt and token passes",
        "ours",
        "equal responses",
    )
    return "\n".join(
        [
            f"`python benchmarks/throughput.py --lmms PYTHON {line}`, checkpoint "
            f"{Path(options.checkpoint).name}, on {place}.",
            "",
            "Ratios are medians of the turns' ratios (least to most), more than 1 where harness is "
            f"quicker. Responses are equal if they differ by at most {NEAR} in a number; VOID: the "
            "sides did not do the same.",
            "",
            f"| {' | '.join(columns)} |",
            f"|{' --- |' * len(columns)}",
            *rows,
        ]
    )


if __name__ == "__main__":
    main()

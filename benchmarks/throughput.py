"""How fast answers come: lmms-eval's and ours on the same checkpoint and samples, in one run.

    python benchmarks/throughput.py --lmms PYTHON [--samples N] [--batch N] [--repeats N] [--save]
    python benchmarks/throughput.py --overhead [--samples N] [--batch N] [--repeats N] [--save]

PYTHON is the interpreter of an environment in which `lmms-eval==0.7.3` is installed, and `decord`,
which its Qwen2.5-VL imports. Both sides get the same images, prompts, limit of new tokens,
threads, batch size, weights in bfloat16 (in which lmms-eval loads them) and transformers' own
choice of attention, and decode greedily. They take turns, each time in a new process, which loads
and answers one batch of other questions first. lmms-eval is given all requests at once, ours as
many batches as its backend asks for (eight).

Seconds: of lmms-eval, those within `generate_until`, from the list of requests to the last
response. Of ours, those from the first batch that is planned until the last one is read, journalled
and
scored: `harness.run.evaluate`, as `harness eval` calls it. Loading is outside of both. `busy` is
the share of them within the network's forward pass. `whole` are the samples a second of the whole
call (`simple_evaluate` with a built model; `evaluate` with a loaded one), which also reads the
task, hashes the weights (ours), scores and collects.

`--overhead` asks what ours costs beside a loop over the same batches, made beforehand, that calls
`generate` and nothing else, in one process that has answered all of it once: of the engine alone
(`continuous_batching=false`, so that both compute the same), and as it is used. They take turns
over pieces of the
set, `--repeats` times over all of them, as a machine's speed drifts by more in a minute than what
is asked for; which goes first goes round. What the engine alone costs is told apart: seconds before
the first call of `generate` and after the last one, once a run; the part of the time between them
that is between calls; and how much longer the calls themselves take, beside which other threads
decode, read and score. It needs no lmms-eval.

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
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import expm1, log
from pathlib import Path
from statistics import fmean, median, quantiles, stdev
from time import perf_counter
from typing import Any

import mixed_lengths
from busy import Busy
from parts import save

from harness import plugins
from harness.errors import HarnessError, MissingDependency, UsageError
from harness.models.backends.checkpoint import find
from harness.models.backends.transformers import ROUNDS
from harness.models.pipeline import PromptedModel
from harness.provenance import device
from harness.run.batching import batches
from harness.run.evaluate import evaluate
from harness.run.options import NullProgress, Options
from harness.run.workers import worker_info
from harness.spec import parse
from harness.statistics.quantiles import half_width
from harness.task import Task

HERE = Path(__file__).resolve().parent
RESULT = HERE / "results" / "throughput.md"
VERSION = "0.7.3"
BARE, ENGINE, ROLLING = "bare `generate` loop", "harness, `continuous_batching=false`", "harness"
PIECE = 2  # times what the engine asks for at once: one side is timed over it, then the other
NUMBER = re.compile(r"[0-9]+")
NEAR = 2  # of pocket's 168 pixels a side
ALIKE = 0.8  # the share of equal responses below which a comparison says nothing
LONGER = 0.05  # how much more one side may write, as a share
SQUARE, SHORT = (168, 168), 16  # the image and the longest response of `--alike`
MODEL = (
    "pocket(checkpoint={checkpoint},segmenter=box,propagator=still,batch_size={batch},"
    "retry=false,max_new_tokens={max_new_tokens},"
    "backend=transformers(dtype=bfloat16,device={device},continuous_batching={continuous_batching},"
    "min_pixels={min_pixels},max_pixels={max_pixels}))"
)


def main() -> None:
    given = arguments()
    if given.child:
        settings, result = map(Path, given.child)
        measured = ours(json.loads(settings.read_text("utf-8")))
        result.write_text(json.dumps(measured), encoding="utf-8")
        return
    try:
        minimum = PIECE * ROUNDS * given.batch if given.overhead else given.batch
        mixed_lengths.check_size(given.samples, minimum)
        if given.overhead and given.repeats < 2:
            raise UsageError(
                "--overhead",
                expected="--repeats of at least 2, for an interval",
                found=str(given.repeats),
            )
        if not given.overhead:
            check_lmms(given.lmms)
        text = measure(given)
    except HarnessError as error:
        sys.exit(f"error: {error}")
    print(text)
    if given.save:
        side = "overhead" if given.overhead else "lmms-eval"
        side += ", alike" if given.alike else ""
        save(RESULT, f"{side}, batches of {given.batch}", text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lmms", metavar="PYTHON", help="of an environment with lmms-eval")
    parser.add_argument("--overhead", action="store_true", help="around a bare generate loop")
    parser.add_argument("--checkpoint", default="pocket", help="a Qwen2.5-VL checkpoint")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--samples", type=int, default=192)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--max-new-tokens", type=int, default=160)
    parser.add_argument("--alike", action="store_true", help="images of one size, short responses")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def check_lmms(python: str | None) -> None:
    """Raise MissingDependency unless this interpreter has the release that is compared with."""
    fix = (
        f"python -m venv E; E/bin/pip install lmms-eval=={VERSION} decord; then --lmms E/bin/python"
    )
    code = "from importlib.metadata import version; print(version('lmms-eval'))"
    if python is None:
        found = "no --lmms"
    else:
        try:
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
            found = done.stdout.strip() or "none in that environment"
        except OSError as error:
            found = f"{python}: {error.strerror}"
    if found != VERSION:
        raise MissingDependency(
            "the comparison",
            expected=f"lmms-eval {VERSION} in an environment of its own",
            found=found,
            fix=fix,
        )


def measure(given: argparse.Namespace) -> str:
    """Make the samples, let the sides take turns, and tell what was found."""
    settings = {
        "checkpoint": str(find(given.checkpoint).resolve()),
        "device": given.device,
        "batch": given.batch,
        "threads": given.threads,
        "max_new_tokens": SHORT if given.alike else given.max_new_tokens,
        "continuous_batching": str(not given.overhead).lower(),
        "min_pixels": mixed_lengths.MIN_PIXELS,
        "max_pixels": mixed_lengths.MAX_PIXELS,
        "overhead": given.overhead,
        "repeats": given.repeats,
    }
    with tempfile.TemporaryDirectory() as scratch:
        model = model_of(settings)

        def prompt(query: Any) -> str:
            return model.requests(query)[0].text

        for name, seed, samples in (("set", 0, given.samples), ("warm", 1, given.batch)):
            folder = Path(scratch) / name
            mixed_lengths.write(
                folder,
                seed=seed,
                samples=samples,
                prompt=prompt,
                sizes=(SQUARE,) if given.alike else mixed_lengths.SIZES,
            )
            settings[name] = str(folder)
        sides = {"ours": [sys.executable, __file__, "--child"]}
        if given.overhead:
            return overhead(given, child(sides["ours"], settings, Path(scratch)))
        python = str(Path(shutil.which(given.lmms) or given.lmms).absolute())
        sides["lmms"] = [python, str(HERE / "throughput_lmms.py")]
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
    surroundings = {
        **os.environ,
        "PYTHONPATH": str(HERE.parent),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(settings["threads"]),
        "HF_DATASETS_CACHE": str(scratch / "datasets"),
    }
    done = subprocess.run(
        [*line, str(requested), str(result)],
        capture_output=True,
        text=True,
        env=surroundings,
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


class Calls:
    """When each call of a network's `generate` began and ended."""

    def __init__(self, network: Any) -> None:
        self._generate = network.generate
        self.spans: list[tuple[float, float]] = []
        network.generate = self._timed

    def _timed(self, **given: Any) -> Any:
        start = perf_counter()
        made = self._generate(**given)
        self.spans.append((start, perf_counter()))
        return made

    @property
    def inside(self) -> float:
        """Seconds within calls."""
        return sum(end - start for start, end in self.spans)

    def parts(self, began: float, ended: float) -> dict[str, float]:
        """Seconds of a run that began and ended then: outside of all calls, between, within."""
        first, last = self.spans[0][0], self.spans[-1][1]
        return {
            "outside": first - began + ended - last,
            "between": last - first - self.inside,
            "inside": self.inside,
        }


def ours(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Our side, and with `overhead` the bare loop after it."""
    import torch

    torch.set_num_threads(settings["threads"])
    model = model_of(settings)
    model.prepare()
    busy = Busy(model.chat.network)
    evaluated(mixed_lengths.task(Path(settings["warm"])), model)
    busy.reset()
    task = mixed_lengths.task(Path(settings["set"]))
    if settings["overhead"]:
        return beside_bare(task, model, busy, turns=settings["repeats"])
    return evaluated(task, model) | busy.found()


def beside_bare(task: Task, model: PromptedModel, busy: Busy, *, turns: int) -> dict[str, Any]:
    """Seconds of each side, in turns over pieces, where all has been met before."""
    size = PIECE * worker_info(model).batch_size
    several = pieces(task, size)
    rolling = replace(model, chat=replace(model.chat, continuous_batching=True))
    calls, info = Calls(model.chat.network), defaultdict[str, list[float]](list)

    def engine(piece: Task) -> float:
        calls.spans.clear()
        found = evaluated(piece, model)
        for name, seconds in calls.parts(found["began"], found["ended"]).items():
            info[name].append(seconds)
        window: float = found["window"]
        return window

    def loop(piece: Task) -> float:
        calls.spans.clear()
        seconds = bare(piece, model)
        info["bare"].append(calls.inside)
        return seconds

    sides: dict[str, Callable[[Task], float]] = {
        BARE: loop,
        ENGINE: engine,
        ROLLING: lambda piece: evaluated(piece, rolling)["window"],
    }
    for work in sides.values():
        for piece in several:
            work(piece)
    info.clear()
    seconds: dict[str, list[list[float]]] = {name: [] for name in sides}
    names, working = list(sides), 0.0
    for turn in range(turns):
        for name in names:
            seconds[name].append([])
        for number, piece in enumerate(several, start=turn):
            for at in range(len(names)):
                name = names[(number + at) % len(names)]
                busy.reset()
                seconds[name][-1].append(sides[name](piece))
                working += busy.found()["busy"] if name == ENGINE else 0.0
    whole = sum(map(sum, seconds[ENGINE]))
    return {"seconds": seconds, "busy": working / whole, "size": size, "told": dict(info)}


def pieces(task: Task, size: int) -> list[Task]:
    """The task cut into tasks of so many samples; what is left over is left out."""
    samples = list(task.samples())
    cut = [samples[start : start + size] for start in range(0, len(samples) + 1 - size, size)]
    return [replace(task, samples=partial(iter, piece)) for piece in cut]


def evaluated(task: Task, model: PromptedModel) -> dict[str, Any]:
    """Seconds of the whole evaluation and of its predictions, and the responses by id."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        start = perf_counter()
        run = evaluate(
            task, model, Path(folder) / "run", Options(), model_spec=model.name, progress=watch
        )
        whole = perf_counter() - start
        responses = {one.id: "".join(run.prediction(one.id).responses) for one in task.samples()}
    return {
        "began": watch.began,
        "ended": watch.ended,
        "window": watch.ended - watch.began,
        "whole": whole,
        "responses": responses,
    }


def bare(task: Task, model: PromptedModel) -> float:
    """Seconds of `generate` alone over the batches that the evaluation makes."""
    import torch

    from harness.models.backends.batching import batches as cut
    from harness.models.backends.inputs import processor_inputs

    output = worker_info(model)
    plan = batches(task.samples(), size=output.batch_size, sort=output.sort)
    made: list[Any] = []
    for batch in plan:
        requests = [one for query in batch.queries for one in model.requests(query)]
        made += [
            processor_inputs(model.chat.processor, [requests[one] for one in places])
            for places in cut(requests, size=model.chat.batch_size)
        ]
    start = perf_counter()
    with torch.inference_mode():
        for inputs in made:
            model.chat.network.generate(
                **inputs.to(model.chat.network.device),
                do_sample=False,
                max_new_tokens=model.max_new_tokens,
            ).tolist()
    return perf_counter() - start


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
    """The table of both sides."""
    mine, theirs = runs["ours"], runs["lmms"]
    same = min(
        alike(one["responses"], other["responses"]) for one, other in zip(mine, theirs, strict=True)
    )
    written = [sum(map(len, side[0]["responses"].values())) for side in (mine, theirs)]
    longer = written[0] / written[1] - 1
    requested = mine[0]["prompts"] == theirs[0]["prompts"]
    lines = [
        about(given),
        "",
        "| | samples/s | busy | prompt passes | token passes | whole, samples/s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, side in ((f"lmms-eval {theirs[0]['version']}", theirs), ("harness", mine)):
        lines.append(
            f"| {name} | {spread([given.samples / one['window'] for one in side])} | "
            f"{spread([one['busy'] / one['window'] for one in side], 3)} | "
            f"{side[0]['prefills']} | {side[0]['steps']} | "
            f"{spread([given.samples / one['whole'] for one in side])} |"
        )
    ratios = [a["window"] / b["window"] for a, b in zip(theirs, mine, strict=True)]
    wholes = [a["whole"] / b["whole"] for a, b in zip(theirs, mine, strict=True)]
    lines += [
        "",
        f"Ratio, the median of the turns' ratios: {spread(ratios)}; of whole calls "
        f"{spread(wholes)}.",
        f"Equal responses, up to {NEAR} in a number: {same:.1%}; characters written: ours "
        f"{longer:+.1%}; prompts, token by token: "
        f"{'equal' if requested else 'NOT EQUAL'}.",
    ]
    if same < ALIKE or not requested or abs(longer) > LONGER:
        lines.append("**VOID: the two sides do not answer the same questions in the same way.**")
    return "\n".join(lines)


def overhead(given: argparse.Namespace, found: Mapping[str, Any]) -> str:
    """The table of ours and the bare loop."""
    seconds, size = found["seconds"], found["size"]
    count = len(seconds[BARE][0])
    lines = [
        about(given),
        "",
        "| | samples/s | seconds beside the loop's, mean of turns (95 %) |",
        "| --- | --- | --- |",
    ]
    for name, turns in seconds.items():
        cost = "" if name == BARE else costs(turns, seconds[BARE])
        speeds = spread([size * count / sum(one) for one in turns])
        lines.append(f"| {name} | {speeds} | {cost} |")
    return "\n".join(
        [
            *lines,
            "",
            f"Turns over {count} pieces of {size} samples each; the engine alone is "
            f"{found['busy']:.3f} busy. {divided(found['told'])}",
        ]
    )


def divided(told: Mapping[str, Sequence[float]]) -> str:
    """Where the seconds go that the engine alone takes beside the loop: medians over pieces."""
    within = [one / other for one, other in zip(told["inside"], told["bare"], strict=True)]
    between = [one / other for one, other in zip(told["between"], told["inside"], strict=True)]
    return (
        f"Of it, {median(told['outside']):.2f} s of a run are before the first call and after "
        f"the last one; {median(between):.1%} of the calls' time passes between calls; the "
        f"calls take {median(within) - 1:+.1%} (half of the pieces {quartiles(within)})."
    )


def quartiles(ratios: Sequence[float]) -> str:
    """The middle half of ratios, in percent.

    >>> quartiles([1.0, 1.01, 1.02, 1.03, 1.04])
    '+1.0 to +3.0 %'
    """
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return f"{100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %"


def costs(mine: Sequence[Sequence[float]], loop: Sequence[Sequence[float]]) -> str:
    """How many more seconds one side takes: piece by piece within a turn, the interval of turns."""
    logs = [
        fmean(log(a / b) for a, b in zip(one, other, strict=True))
        for one, other in zip(mine, loop, strict=True)
    ]
    middle = fmean(logs)
    wide = half_width(0.95, degrees=len(logs) - 1) * stdev(logs) / len(logs) ** 0.5
    cost, low, high = (100 * expm1(one) for one in (middle, middle - wide, middle + wide))
    return f"{cost:+.1f} % ({low:+.1f} to {high:+.1f})"


def about(given: argparse.Namespace) -> str:
    """What was measured, on what, and by which command."""
    line = (
        f"--samples {given.samples} --batch {given.batch} --repeats {given.repeats} "
        f"--threads {given.threads} --checkpoint {Path(given.checkpoint).name} "
        f"--device {given.device}"
    )
    side = "--overhead" if given.overhead else "--lmms PYTHON"
    side += " --alike" if given.alike else ""
    place = device() if given.device != "cpu" else f"{os.cpu_count()} cores, {platform.machine()}"
    return (
        f"`python benchmarks/throughput.py {side} {line}` on {place}; median (least to most) "
        f"of {given.repeats} turns."
    )


if __name__ == "__main__":
    main()

"""`harness reproduce`: the trainings, evaluations and board that make a paper's table."""

import inspect
import os
import re
import shlex
import socket
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from harness import plugins
from harness.cli.doctor import gpus
from harness.cli.spec_arguments import require
from harness.errors import UsageError
from harness.leaderboards import estimate
from harness.leaderboards.definitions import SLOT, BoardRow, Definition, definitions, find
from harness.leaderboards.estimate import Device, Estimate
from harness.leaderboards.published_results import GENERATED
from harness.spec import Spec, Value, parse, parse_list
from harness.store.atomic import read_json

OUT = Path("reproduce")
"""Folder of trainings, runs and boards by default."""
VIDEO_FORMS = frozenset({"mask_track", "box_track", "choice", "number", "text", "interval"})
"""Forms of answer of tasks about videos."""
ASSUMED = "A100-80GB"
"""Device that a dry run estimates for where there is no GPU."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command."""

    name: str
    command: tuple[str, ...]
    """Arguments of `harness`."""
    processes: int = 1
    estimate: Estimate | None = None
    samples: Mapping[str, int] = field(default_factory=dict)
    """Number of samples of each task; 0 where none is known."""

    @property
    def line(self) -> list[str]:
        """The command as a shell takes it."""
        if self.processes == 1:
            return ["harness", *self.command]
        several = ["accelerate", "launch", "--num_processes", str(self.processes)]
        return [*several, "--mixed_precision", "bf16", "-m", "harness", *self.command]


def reproduce(arguments: Namespace) -> int:
    """Print what makes a table, and run it; return the first exit code that is none of success."""
    if not arguments.paper or not arguments.table or arguments.all or arguments.rows:
        raise UsageError(
            "harness reproduce",
            expected="PAPER TABLE; --all and --rows belong to --rehearse",
            found="no table" if not arguments.table else "--all or --rows",
        )
    definition = find(arguments.paper, arguments.table)
    if not arguments.dry_run:
        require(arguments, "data")
    absent = ASSUMED if arguments.dry_run else "CPU"
    usual = "CPU" if _is_small(definition) else " ".join(gpus()) or absent
    device = estimate.device_of(arguments.device or usual)
    if device is None:
        names = ", ".join(one.name for one in estimate.DEVICES)
        raise UsageError("--device", expected=f"one of {names}", found=str(arguments.device))
    steps = plan(definition, str(arguments.data or "ROOT"), arguments.out, device)
    _show(definition, steps, device)
    for step in () if arguments.dry_run else steps:
        if absent := _absent(step):
            print(f"left out: {step.name}: {absent}")
            continue
        line = [sys.executable, "-m", "harness", *step.command]
        if step.processes > 1:
            line = [sys.executable, "-m", "accelerate.commands.launch", *step.line[2:]]
        sys.stdout.flush()
        if code := subprocess.run(line, check=False).returncode:
            print(f"harness: {step.name} ended with {code}", file=sys.stderr)
            return code
    return 0


def _absent(step: Step) -> str:
    """Return the server or the key that an evaluation needs and that is not here; empty: none."""
    for backend in _backends(_model_of(step)):
        variable, url = (backend.arguments.get(name) for name in ("key_variable", "base_url"))
        if isinstance(variable, str):
            if not os.environ.get(variable):
                return f"{variable} has no key for {url}"
        elif not _answers(str(url)):
            return f"no server answers at {url}"
    return ""


def _model_of(step: Step) -> Spec:
    """Return the model that a step evaluates; one without arguments where it evaluates none."""
    if step.command[0] != "eval":
        return Spec("")
    return parse(step.command[step.command.index("--model") + 1])


def _backends(spec: Spec) -> Iterator[Spec]:
    """Yield the servers that a SPEC names, at any depth."""
    for value in spec.arguments.values():
        if isinstance(value, Spec):
            if value.name == "openai":
                yield value
            yield from _backends(value)


def _answers(url: str) -> bool:
    """Return True if something listens at one of the addresses of a server."""
    for one in url.split(","):
        place = urlsplit(one.strip())
        with suppress(OSError, ValueError):
            port = place.port or {"https": 443}.get(place.scheme, 80)
            socket.create_connection((place.hostname or "", port), timeout=5).close()
            return True
    return False


def plan(definition: Definition, data: str, out: Path, device: Device) -> list[Step]:
    """Return the commands that make a table, in their order; raise what is lacking for one."""
    trained: dict[str, Step] = {}
    evaluated: dict[tuple[str, ...], Step] = {}
    for row in (row for row in definition.rows if row.model):
        for step in trainings(definition, parse(row.model), data, out, device):
            trained.setdefault(step.name, step)
        for step in evaluations(definition, row, data, out, device):
            evaluated.setdefault(step.command, step)
    return [*trained.values(), *evaluated.values(), *boards(definition, out)]


def boards(definition: Definition, out: Path) -> list[Step]:
    """Return the commands that write a table's board and report from its runs."""
    name = f"{definition.paper}/{definition.table}"
    is_installed = definition in definitions()
    actions = [("build", "--board", name if is_installed else str(definition.file))]
    actions += [(definition.report,)] if definition.report else []  # type: ignore[list-item]
    place = ("--runs", str(out / "runs"), "--out", str(out / name.replace("/", "-")))
    return [
        Step(name=f"board {action[0]}", command=("board", *action, *place)) for action in actions
    ]


def _is_small(definition: Definition) -> bool:
    """Return True if no network of a board is larger than `pocket`: it is of a generated world."""
    specs = (parse(row.model) for row in definition.rows if row.model)
    return all(_size(spec) < estimate.SMALL for spec in specs)


def trainings(
    definition: Definition, spec: Spec, data: str, out: Path, device: Device
) -> Iterator[Step]:
    """Yield the trainings that a SPEC names, those that they begin with first."""
    for name in SLOT.findall(str(spec)):
        step, folder = definition.trainings[name], out / "trainings" / name
        config = step.read()
        start = parse(step.start or config["model"])
        yield from trainings(definition, start, data, out, device)
        command = ["train", "--method", step.method, "--config", step.config, "--data", data]
        command += ["--out", str(folder)]
        command += ["--model", _filled(start, out)] if step.start else []
        command += [part for text in step.set for part in ("--set", text)]
        command += ["--resume"] if (folder / "manifest.json").is_file() else []
        typed = parse(f"x({','.join(step.set)})").arguments if step.set else {}
        tasks = parse_list(",".join(config["train_tasks"]))
        world = _world(definition, data)
        samples = {str(task): _samples(str(task), world) for task in tasks}
        found = estimate.training(
            {**_defaults("trainers", step.method), **config, **typed},
            size=_size(start),
            samples=sum(count or estimate.UNKNOWN for count in samples.values()),
            device=device,
            processes=step.processes,
        )
        yield Step(
            name=f"train {name}",
            command=tuple(command),
            processes=step.processes,
            estimate=found,
            samples=samples,
        )


def evaluations(
    definition: Definition, row: BoardRow, data: str, out: Path, device: Device
) -> Iterator[Step]:
    """Yield the evaluation of a row for each subset and judge of its columns."""
    spec = parse(row.model)
    adaptation = spec.arguments if "steps" in _defaults("models", spec.name) else None
    groups: dict[tuple[str | None, str], dict[str, int]] = {}
    world = _world(definition, data)
    for column in definition.columns:
        if column.task and row.is_of(column):
            counts = groups.setdefault((column.subset, column.judge), {})
            counts[column.task] = _samples(column.task, world, column.subset)
    for (subset, judge), samples in groups.items():
        command = ["eval", "--model", _filled(spec, out), "--tasks", ",".join(samples)]
        command += ["--data", data, "--out", str(out / "runs")]
        command += ["--subset", subset] if subset else []
        command += ["--judge", judge] if judge else []
        command += [part for metric in definition.metrics for part in ("--metrics", metric)]
        found = [
            estimate.evaluation(
                size=_size(spec),
                samples=count or estimate.UNKNOWN,
                device=device,
                is_video=_is_video(task),
                adaptation=adaptation,
            )
            for task, count in samples.items()
        ]
        total = Estimate(sum(one.hours for one in found), max(one.memory for one in found))
        yield Step(name=f"eval {row.row}", command=tuple(command), estimate=total, samples=samples)


def _filled(spec: Spec, out: Path) -> str:
    """Return a SPEC with the folders of trainings in the place of their names."""
    return SLOT.sub(lambda found: str(out / "trainings" / found[1]), str(spec))


@cache
def _defaults(kind: plugins.Kind, name: str) -> Mapping[str, object]:
    known = inspect.signature(plugins.load(kind, name)).parameters
    return {key: one.default for key, one in known.items()}


def _size(spec: Spec) -> float:
    """Return the parameters of the network that answers, in 10^9; 0 where there is none here."""
    base: Value = spec
    while isinstance(base, Spec):
        if not {"base", "checkpoint"} & _defaults("models", base.name).keys():
            return 0.0
        if any(_backends(base)):
            return 0.0
        base = base.arguments.get("base") or base.arguments.get("checkpoint") or base.name
    return estimate.parameters(str(base))


def _world(definition: Definition, data: str) -> int:
    """Return the samples of a split of the generated world at `data`; 0 where there is none.

    A board of `pocket` is made on one that is yet to be written.
    """
    path = Path(data) / GENERATED
    if path.is_file():
        return int(read_json(path)["size"])
    return estimate.WORLD if _is_small(definition) and not path.parent.is_dir() else 0


@cache
def _samples(task: str, world: int, subset: str | None = None) -> int:
    """Return the published number of samples, or a generated world's size; 0 where none is."""
    spec = parse(task)
    if world:
        return world
    if subset:
        return int(subset.rpartition("-")[2].removeprefix("first"))
    if isinstance(drawn := spec.arguments.get("sample"), int):
        return drawn
    card = plugins.find_card(spec.name)
    if card is None:
        return 0
    split = str(spec.arguments.get("split", card.default_split))
    found = card.published_counts(split, {"protocol": card.protocol, **spec.arguments})[0]
    named = re.search(r"_(\d+)k$", spec.name)  # such as visionreasoner_7k
    return found or (int(named[1]) * 1000 if named else 0)


@cache
def _is_video(task: str) -> bool:
    card = plugins.find_card(parse(task).name)
    return card is not None and bool(VIDEO_FORMS & {*card.forms})


def _show(definition: Definition, steps: list[Step], device: Device) -> None:
    print(definition.heading)
    if left_out := [row.row for row in definition.rows if not row.model]:
        print(f"left out: {', '.join(left_out)}: see docs/models.md for how they are reached")
    for step in steps:
        about = f": {step.estimate} on {step.processes} × {device.name}" if step.estimate else ""
        print(f"\n# {step.name}{about}")
        for backend in _backends(_model_of(step)):
            needs = backend.arguments.get("key_variable") or backend.arguments.get("base_url")
            print(f"#   left out without {needs}")
        if unknown := [task for task, count in step.samples.items() if not count]:
            print(
                f"#   {estimate.UNKNOWN:,} samples assumed of {', '.join(unknown)}: not published"
            )
        if step.estimate and step.estimate.memory > device.memory:
            print(f"#   more than the {device.memory:.0f} GB of one {device.name}")
        print(shlex.join(step.line))
    whole = Estimate(sum(step.estimate.hours for step in steps if step.estimate), 0)
    print(f"\nabout {whole.time} in all; uncertain by a factor of 3 (docs/published.md)")

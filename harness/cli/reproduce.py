"""`harness reproduce`: the trainings, evaluations and board that make a paper's table."""

import inspect
import re
import shlex
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from harness import plugins
from harness.cli.doctor import gpus
from harness.cli.servers import Package, Server, servers
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
ELSEWHERE = ("--machine_rank", "RANK", "--main_process_ip", "ADDRESS")
"""Options of accelerate that differ between machines or are not known here."""
GPUS = tuple(device for device in estimate.DEVICES if device.name != "CPU")
ASSUMED = "A100-80GB"
"""Device that a dry run estimates for where there is no GPU."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command."""

    name: str
    command: tuple[str, ...]
    """Arguments of `harness`."""
    processes: int = 1
    machines: int = 1
    estimate: Estimate | None = None
    samples: Mapping[str, int] = field(default_factory=dict)
    """Number of samples of each task; 0 where none is known."""
    needs: tuple[Server | Package, ...] = ()
    """Servers that answer in the model's place, and packages: without them it is left out."""
    ways: tuple[str, ...] = ()
    """Settings to try if it needs more memory than the device has."""

    @property
    def is_finished(self) -> bool:
        """Return True if it is a training whose checkpoint is there."""
        return (Path(self.command[self.command.index("--out") + 1]) / "checkpoint").is_dir()

    @property
    def line(self) -> list[str]:
        """The command as a shell takes it."""
        if self.processes == 1:
            return ["harness", *self.command]
        several = ["accelerate", "launch", "--num_processes", str(self.processes)]
        if self.machines > 1:
            several[2:2] = ["--num_machines", str(self.machines), *ELSEWHERE]
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
        text = arguments.device or usual
        known = [device.name for device in estimate.DEVICES]
        near = [name for name in known if text.upper() in name]
        raise UsageError("--device", expected=f"one of {', '.join(near or known)}", found=text)
    steps = plan(definition, str(arguments.data or "ROOT"), arguments.out, device)
    _show(definition, steps, device)
    for step in () if arguments.dry_run else steps:
        if lacking := [str(needed) for needed in step.needs if not needed.is_given]:
            print(f"left out: {step.name}: needs {'; '.join(lacking)}", file=sys.stderr)
            continue
        line = [sys.executable, "-m", "harness", *step.command]
        if step.machines > 1:
            if step.is_finished:
                continue
            raise UsageError(
                step.name,
                expected=f"{step.machines} machines, which this command cannot start",
                found="one",
                fix=f"Start it on each, with RANK from 0: {shlex.join(step.line)}; "
                "then run the same command again to resume.",
            )
        if step.processes > 1:
            line = [sys.executable, "-m", "accelerate.commands.launch", *step.line[2:]]
        sys.stdout.flush()
        if code := subprocess.run(line, check=False).returncode:
            print(f"harness: {step.name} ended with {code}", file=sys.stderr)
            return code
    return 0


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
        settings = {**_defaults("trainers", step.method), **config, **typed}
        estimated = partial(
            estimate.training,
            size=_size(start),
            samples=sum(count or estimate.UNKNOWN for count in samples.values()),
            processes=step.processes,
            model=start.name,
            is_video=any(map(_is_video, samples)),
        )
        yield Step(
            name=f"train {name}",
            command=tuple(command),
            processes=step.processes,
            machines=step.machines,
            estimate=estimated(settings, device=device),
            samples=samples,
            ways=_ways(
                estimated,
                settings,
                device,
                [
                    *([{"deepspeed": "zero3"}] if step.processes > 1 else []),
                    {"per_device_train_batch_size": 1, "generation_micro_batch_size": 1},
                    {"finetune": "lora", "deepspeed": None},
                ],
            ),
        )


def evaluations(
    definition: Definition, row: BoardRow, data: str, out: Path, device: Device
) -> Iterator[Step]:
    """Yield the evaluation of a row for each subset and judge of its columns."""
    spec = parse(row.model)
    known = _defaults("models", spec.name)
    adaptation = {**known, **spec.arguments} if {"steps", "rollouts"} & known.keys() else None
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
        name = f"eval {row.row}" + (f" with the package {row.package}" if row.package else "")

        def estimated(
            settings: Mapping[str, object] | None,
            *,
            device: Device,
            samples: Mapping[str, int] = samples,
        ) -> Estimate:
            parts = [
                estimate.evaluation(
                    size=_size(spec),
                    samples=count or estimate.UNKNOWN,
                    device=device,
                    is_video=_is_video(task),
                    adaptation=settings,
                    model=spec.name,
                )
                for task, count in samples.items()
            ]
            memory, host = max((part.memory, part.host) for part in parts)
            return Estimate(sum(part.hours for part in parts), memory, host=host)

        network = spec.arguments.get("backend")
        if isinstance(network, Spec) and (asked := tuple(servers(network))):
            yield Step(name=name, command=tuple(command), samples=samples, needs=asked)
            continue
        learns = adaptation is not None and "finetune" in adaptation
        changes = [{"offload": "optimizer"}, {"finetune": "lora"}] if learns else []
        yield Step(
            name=name,
            command=tuple(command),
            estimate=estimated(adaptation, device=device),
            samples=samples,
            needs=(Package(row.package),) if row.package else (),
            ways=_ways(estimated, adaptation, device, changes),
        )


def _ways(
    estimated: Callable[..., Estimate],
    settings: Mapping[str, object] | None,
    device: Device,
    changes: Sequence[Mapping[str, object]],
) -> tuple[str, ...]:
    """Return the changes with which a command fits a device, and the devices that it fits as is.

    Nothing where it fits.
    """
    if estimated(settings, device=device).memory <= device.memory:
        return ()
    changed = [
        f"{', '.join(f'{name}={value}' for name, value in change.items())} needs {memory:,.0f} GB"
        for change in changes
        if (memory := estimated({**(settings or {}), **change}, device=device).memory)
        <= device.memory
    ]
    wider = [gpu for gpu in GPUS if estimated(settings, device=gpu).memory <= gpu.memory]
    return (*changed, *(f"{gpu.name} has {gpu.memory:.0f} GB" for gpu in wider))


def _filled(spec: Spec, out: Path) -> str:
    """Return a SPEC with the folders of trainings in the place of their names."""
    return SLOT.sub(lambda match: str(out / "trainings" / match[1]), str(spec))


@cache
def _defaults(kind: plugins.Kind, name: str) -> Mapping[str, object]:
    known = inspect.signature(plugins.load(kind, name)).parameters
    return {key: parameter.default for key, parameter in known.items()}


def _size(spec: Spec) -> float:
    """Return the parameters of the network that answers, in 10^9; 0 where there is none."""
    base: Value = spec
    while isinstance(base, Spec):
        if not {"base", "checkpoint"} & _defaults("models", base.name).keys():
            return 0.0
        base = base.arguments.get("base") or base.arguments.get("checkpoint") or base.name
    return estimate.parameters(str(base))


def _world(definition: Definition, data: str) -> int:
    """Return the samples of a split of the generated world that a board of `pocket` is made on.

    0 for others: what they would take on a generated world nobody asks. The world may be yet to be
    written.
    """
    if not _is_small(definition):
        return 0
    path = Path(data) / GENERATED
    if path.is_file():
        return int(read_json(path)["size"])
    return 0 if path.parent.is_dir() else estimate.WORLD


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
    published = card.published_counts(split, {"protocol": card.protocol, **spec.arguments})[0]
    named = re.search(r"_(\d+)k$", spec.name)  # such as visionreasoner_7k
    return published or (int(named[1]) * 1000 if named else 0)


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
        known = [f"{count:,} of {task}" for task, count in step.samples.items() if count]
        if known:
            print(f"#   samples: {', '.join(known)}")
        if unknown := [task for task, count in step.samples.items() if not count]:
            print(
                f"#   {estimate.UNKNOWN:,} samples assumed of {', '.join(unknown)}: not published"
            )
        for needed in step.needs:
            state = "" if needed.is_given else "; left out until it is there"
            print(f"#   needs {needed}{state}")
        if step.estimate and step.estimate.host:
            print(f"#   {step.estimate.host:,.0f} GB of the machine's own memory")
        if step.estimate and step.estimate.memory > device.memory:
            ways = "; or ".join(step.ways) or "a smaller network"
            print(f"#   more than the {device.memory:.0f} GB of one {device.name}: {ways}")
        print(shlex.join(step.line))
    whole = Estimate(sum(step.estimate.hours for step in steps if step.estimate), 0)
    print(f"\nabout {whole.time} in all; uncertain by a factor of 3 (docs/published.md)")

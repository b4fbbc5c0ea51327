"""The commands that make a paper's table: its trainings, evaluations and board."""

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from harness import plugins
from harness.errors import HarnessError
from harness.leaderboards import estimate
from harness.leaderboards.definitions import SLOT, BoardRow, Definition, TrainingStep, definitions
from harness.leaderboards.estimate import Device, Estimate
from harness.leaderboards.published_results import GENERATED
from harness.leaderboards.servers import Package, Server, servers
from harness.run.batching import samples_of
from harness.spec import Spec, Value, parse, parse_list
from harness.store.atomic import read_json

VIDEO_FORMS = frozenset({"mask_track", "box_track", "choice", "number", "text", "interval"})
"""Forms of answer of tasks about videos."""
ELSEWHERE = ("--machine_rank", "RANK", "--main_process_ip", "ADDRESS")
"""Options of accelerate that differ between machines or are not known here."""
GPUS = tuple(device for device in estimate.DEVICES if device.name != "CPU")


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
    """Configurations, settings and devices with enough memory, if the device has too little."""

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


def is_small(definition: Definition) -> bool:
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
        samples = {str(task): _samples(str(task), data, world) for task in tasks}
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
                form="--set {}",
                before=_fitting_configurations(step, config, estimated, device),
            ),
        )


def _fitting_configurations(
    step: TrainingStep,
    config: Mapping[str, object],
    estimated: Callable[..., Estimate],
    device: Device,
) -> Iterator[str]:
    """Yield the method's configurations of the same data that fit, the largest in memory first."""
    fitting = []
    for path in step.folder.glob("*.toml"):
        named = re.search(r"(\d+)x\d+gb", path.stem)
        published = tomllib.loads(path.read_text(encoding="utf-8"))
        if named is None or published.get("train_tasks") != config.get("train_tasks"):
            continue
        size = re.search(r"_(\d+)b_", path.stem)  # a later stage names no model
        network = str(published.get("model") or (f"{size[1]}B" if size else ""))
        memory = estimated(
            {**_defaults("trainers", step.method), **published},
            device=device,
            size=estimate.parameters(network),
            processes=int(named[1]),
        ).memory
        if memory <= device.memory and int(named[1]) <= step.processes:
            more = (
                f" with a {size[1]}B network in --model"
                if size and "model" not in published
                else ""
            )
            fitting.append((memory, int(named[1]), f"{path.stem}{more}"))
    for memory, processes, option in sorted(fitting, reverse=True):
        yield f"--config {option}: {memory:,.0f} GB on {processes} × {device.name}"


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
            counts[column.task] = _samples(column.task, data, world, column.subset)
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
            ways=_ways(estimated, adaptation, device, changes, form="{} in --model"),
        )


def _ways(
    estimated: Callable[..., Estimate],
    settings: Mapping[str, object] | None,
    device: Device,
    changes: Sequence[Mapping[str, object]],
    *,
    form: str,
    before: Iterable[str] = (),
) -> tuple[str, ...]:
    """Return the changes with which a command fits a device, and the devices that it fits as is.

    Nothing where it fits.

    Args:
        estimated: Estimates the command with settings, on a device.
        settings: Those of the command.
        device: The one with too little memory.
        changes: Settings to try.
        form: How a change is given on the command line, with {} in its place.
        before: Ways that are named first.
    """
    if estimated(settings, device=device).memory <= device.memory:
        return ()
    changed = [
        form.format(",".join(f"{name}={_typed(value)}" for name, value in change.items()))
        + f": {memory:,.0f} GB"
        for change in changes
        if (memory := estimated({**(settings or {}), **change}, device=device).memory)
        <= device.memory
    ]
    wider = [gpu.name for gpu in GPUS if estimated(settings, device=gpu).memory <= gpu.memory]
    return (*before, *changed, *([f"as it is on {' or '.join(wider)}"] if wider else []))


def _typed(value: object) -> str:
    return "none" if value is None else str(value)


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
    if not is_small(definition):
        return 0
    path = Path(data) / GENERATED
    if path.is_file():
        return int(read_json(path)["size"])
    return 0 if path.parent.is_dir() else estimate.WORLD


@cache
def _samples(task: str, data: str, world: int, subset: str | None = None) -> int:
    """Return the published number of samples, or a generated world's size, or those of a real
    folder; 0 where none is known.
    """
    spec = parse(task)
    if world:
        return world
    if subset:
        return int(subset.rpartition("-")[2].removeprefix("first"))
    if isinstance(drawn := spec.arguments.get("sample"), int):
        return drawn
    card = plugins.find_card(spec.name)
    if card is None:
        return _count(spec, Path(data))
    split = str(spec.arguments.get("split", card.default_split))
    published = card.published_counts(split, {"protocol": card.protocol, **spec.arguments})[0]
    named = re.search(r"_(\d+)k$", spec.name)  # such as visionreasoner_7k
    return published or (int(named[1]) * 1000 if named else _count(spec, Path(data)))


def _count(spec: Spec, root: Path) -> int:
    """Return the samples of a task below a data root; 0 in a generated world, or if none is there.

    A file that cannot be read is left to the command itself.
    """
    if not root.is_dir() or (root / GENERATED).is_file():
        return 0
    try:
        return sum(1 for _ in samples_of(plugins.build("tasks", spec, root)))
    except HarnessError:
        return 0


@cache
def _is_video(task: str) -> bool:
    card = plugins.find_card(parse(task).name)
    return card is not None and bool(VIDEO_FORMS & {*card.forms})

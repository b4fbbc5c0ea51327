"""List the commands that make a paper's table: its trainings, evaluations and board.

`harness reproduce` prints or runs the `Step`s of `plan`, each with an estimate of time and memory
and, if the device has too little memory, with changes that would fit.
"""

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from harness import plugins
from harness.errors import DataError, HarnessError, counted, raised_as
from harness.leaderboards import estimate
from harness.leaderboards.definitions import (
    SLOT,
    BoardRow,
    Definition,
    configurations,
    definitions,
)
from harness.leaderboards.estimate import Device, Estimate
from harness.leaderboards.measured import estimate_by, measured, sentences
from harness.leaderboards.published_results import GENERATED
from harness.leaderboards.servers import Package, Server, servers
from harness.run.batching import samples_of
from harness.spec import Spec, Value, parse, parse_list
from harness.store.atomic import read_json

VIDEO_FORMS = frozenset({"mask_track", "box_track", "choice", "number", "text", "interval"})
"""Forms of answer of tasks about videos."""
MACHINE_OPTIONS = ("--machine_rank", "RANK", "--main_process_ip", "ADDRESS")
"""Options of accelerate that the user fills in for each machine."""
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
    """Number of samples of each task; 0 if it is not known."""
    needs: tuple[Server | Package, ...] = ()
    """Servers and packages that it needs; without them it is left out."""
    measured: tuple[str, ...] = ()
    """Sentences on the pilots of earlier runs by which it is estimated."""
    ways: tuple[str, ...] = ()
    """Configurations, settings and devices with enough memory, if the device has too little."""

    def fits(self, device: Device) -> bool:
        """Return True if each device has enough memory, or if the memory is not known."""
        return self.estimate is None or self.estimate.memory <= device.memory

    def about(self, device: Device) -> Iterator[str]:
        """Yield lines on its time, memory, samples and needs, and on what fits if it does not."""
        on_devices = f"on {self.processes} × {device.name}"
        if self.estimate is None:
            yield self.name
        elif self.fits(device):
            yield f"{self.name}: {self.estimate} {on_devices}"
        else:
            yield f"{self.name}: {self.estimate.memory:,.0f} GB each {on_devices}"
        sample_counts = [f"{count:,} of {task}" for task, count in self.samples.items() if count]
        if sample_counts:
            yield f"  samples: {', '.join(sample_counts)}"
        if unknown := [task for task, count in self.samples.items() if not count]:
            yield (
                f"  {estimate.UNKNOWN_SAMPLES:,} samples assumed of {', '.join(unknown)}: "
                "no number is published, and --data has no real files of it to count"
            )
        yield from (f"  measured: {text}" for text in self.measured)
        for needed in self.needs:
            yield f"  needs {needed}" + ("" if needed.is_given else "; left out until it is there")
        if self.estimate and self.estimate.host:
            yield f"  {self.estimate.host:,.0f} GB of the machine's own memory"
        if not self.fits(device):
            yield f"  more than the {device.memory:.0f} GB of one {device.name}. What fits:"
            yield from (f"    {way}" for way in self.ways or ("a smaller network",))

    @property
    def is_finished(self) -> bool:
        """True if it is a training whose checkpoint exists."""
        return (Path(self.command[self.command.index("--out") + 1]) / "checkpoint").is_dir()

    @property
    def line(self) -> list[str]:
        """The command's words, to be typed in a shell."""
        if self.processes == 1:
            return ["harness", *self.command]
        launch = ["accelerate", "launch"]
        if self.machines > 1:
            launch += ["--num_machines", str(self.machines), *MACHINE_OPTIONS]
        launch += ["--num_processes", str(self.processes), "--mixed_precision", "bf16"]
        return [*launch, "-m", "harness", *self.command]


def plan(definition: Definition, data: str, out: Path, device: Device) -> list[Step]:
    """Return the commands that make a table, in their order.

    Args:
        definition: The table.
        data: Folder of the benchmarks' data.
        out: Folder of trainings, runs and the board.
        device: Device for the estimates.

    Raises:
        HarnessError: a plugin or configuration is missing.
    """
    trained: dict[str, Step] = {}
    evaluated: dict[tuple[str, ...], Step] = {}
    for row in (row for row in definition.rows if row.model):
        for step in trainings(definition, parse(row.model), data, out, device):
            trained.setdefault(step.name, step)
        for step in evaluations(definition, row, data, out, device):
            evaluated.setdefault(step.command, step)
    return [*trained.values(), *evaluated.values(), *boards(definition, out)]


def total(steps: Sequence[Step], device: Device) -> str:
    """Return a sentence on the time of the steps that can run on a device.

    A step that starts from the checkpoint of a training that cannot run here cannot run either.
    """
    timed = [step for step in steps if step.estimate]
    hours, n_left_out, lacking = 0.0, 0, list[str]()
    for step in timed:
        line = " ".join(step.command)
        starts = not any(re.search(rf"{re.escape(folder)}(?![\w-])", line) for folder in lacking)
        if starts and step.fits(device) and all(need.is_given for need in step.needs):
            hours += step.estimate.hours if step.estimate else 0.0
            continue
        n_left_out += 1
        if step.command[0] == "train" and not step.is_finished:
            lacking.append(step.command[step.command.index("--out") + 1])
    if timed and n_left_out == len(timed):
        return f"none of {counted(n_left_out, 'step')} can run here as it is"
    without = f" without {counted(n_left_out, 'step')} that cannot run here" if n_left_out else ""
    time = Estimate(hours, 0).time
    bounds = "on a machine that does nothing else, uncertain by a factor of 3 (docs/published.md)"
    return f"about {time} in all{without}; {bounds}"


def boards(definition: Definition, out: Path) -> list[Step]:
    """Return the commands that write a table's board and report from its runs."""
    name = f"{definition.paper}/{definition.table}"
    is_installed = any(board.file == definition.file for board in definitions())
    actions = [("build", "--board", name if is_installed else str(definition.file))]
    actions += [(definition.report,)] if definition.report else []  # type: ignore[list-item]
    paths = ("--runs", str(out / "runs"), "--out", str(out / name.replace("/", "-")))
    return [
        Step(name=f"board {action[0]}", command=("board", *action, *paths)) for action in actions
    ]


def is_small(definition: Definition) -> bool:
    """Return True if no network of a board is larger than `pocket`: it uses a generated world."""
    specs = (parse(row.model) for row in definition.rows if row.model)
    return all(size_of(_with_networks(definition, spec)) < estimate.SMALL_SIZE for spec in specs)


def trainings(
    definition: Definition, spec: Spec, data: str, out: Path, device: Device
) -> Iterator[Step]:
    """Yield the trainings that a SPEC names, after those that they begin with."""
    for name in SLOT.findall(str(spec)):
        step, folder = definition.trainings[name], out / "trainings" / name
        config, start = step.read(), step.begins_with()
        yield from trainings(definition, start, data, out, device)
        command = ["train", "--method", step.method, "--config", step.config, "--data", data]
        command += ["--out", str(folder)]
        command += ["--model", _filled(start, out)] if step.start else []
        command += [word for text in step.set for word in ("--set", text)]
        command += ["--resume"] if (folder / "manifest.json").is_file() else []
        typed = parse(f"x({','.join(step.set)})").arguments if step.set else {}
        listed = config["train_tasks"]
        tasks = parse_list(listed if isinstance(listed, str) else ",".join(listed))
        world = _world_size(definition, data)
        yield training_step(
            tuple(command),
            step.method,
            {**config, **typed},
            _with_networks(definition, start),
            {str(task): _samples(str(task), data, world) for task in tasks},
            device,
            name=f"train {name}",
            processes=step.processes or config.get("processes", 1),
            machines=step.machines,
        )


def training_step(
    command: tuple[str, ...],
    method: str,
    typed: Mapping[str, object],
    start: Spec,
    samples: Mapping[str, int],
    device: Device,
    *,
    name: str,
    processes: int = 1,
    machines: int = 1,
) -> Step:
    """Return a training as a step with its estimate.

    Args:
        command: Arguments of `harness`.
        method: Name of the trainer.
        typed: Its settings without the defaults; options of the command among them are ignored.
        start: SPEC of the model that it begins with.
        samples: Number of samples of each task to train on; 0 if it is not known.
        device: The device.
        name: Name of the step.
        processes: Number of processes, each with one device.
        machines: Machines that share the processes evenly.
    """
    settings = {**_defaults("trainers", method), **typed}
    estimated = partial(
        estimate.training,
        size=size_of(start),
        samples=sum(count or estimate.UNKNOWN_SAMPLES for count in samples.values()),
        processes=processes,
        model=start.name,
        is_video=any(map(_is_video, samples)),
    )
    with raised_as(DataError, f"settings of {name!r}", "numbers", ValueError, TypeError):
        cost = estimated(settings, device=device)
    return Step(
        name=name,
        command=command,
        processes=processes,
        machines=machines,
        estimate=cost,
        samples=samples,
        ways=_ways(
            estimated,
            settings,
            device,
            [
                *([{"deepspeed": "zero3"}] if processes > 1 else []),
                {"per_device_train_batch_size": 1, "generation_micro_batch_size": 1},
                {"finetune": "lora", "deepspeed": None},
            ],
            form="--set {}",
            before=_fitting_configurations(method, samples, processes, estimated, device),
        ),
    )


def _fitting_configurations(
    method: str,
    tasks: Iterable[str],
    processes: int,
    estimated: Callable[..., Estimate],
    device: Device,
) -> Iterator[str]:
    """Yield options for the method's configurations of the same data that fit, largest first.

    Such configurations name their devices: `dt_r1_3b_2x24gb` is for two devices of 24 GB.
    """
    fitting = []
    wanted = {*tasks}
    for path in configurations(method).glob("*.toml"):
        devices = re.search(r"(\d+)x\d+gb", path.stem)  # 2x24gb
        published = tomllib.loads(path.read_text(encoding="utf-8"))
        trained = parse_list(",".join(published.get("train_tasks", ())))
        if devices is None or {str(task) for task in trained} != wanted:
            continue
        n_devices = int(devices[1])
        size = re.search(r"_(\d+)b_", path.stem)  # _3b_, if a later stage names no model
        network = str(published.get("model") or (f"{size[1]}B" if size else ""))
        cost = estimated(
            {**_defaults("trainers", method), **published},
            device=device,
            size=estimate.parameters(network),
            processes=n_devices,
        )
        if cost.memory <= device.memory and n_devices <= processes:
            needs_model = size and "model" not in published
            model = f" with a {size[1]}B network in --model" if size and needs_model else ""
            fitting.append((cost.memory, n_devices, f"{path.stem}{model}", cost.time))
    for memory, n_devices, option, time in sorted(fitting, reverse=True):
        on_devices = f"{memory:,.0f} GB on {n_devices} × {device.name}"
        yield f"--config {option}: {on_devices}, about {time}"


def evaluations(
    definition: Definition, row: BoardRow, data: str, out: Path, device: Device
) -> Iterator[Step]:
    """Yield the evaluation of a row for each subset and judge of its columns."""
    spec = parse(row.model)
    defaults = _defaults("models", spec.name)
    adapts = bool({"steps", "rollouts"} & defaults.keys())
    adaptation = {**defaults, **spec.arguments} if adapts else None
    groups: dict[tuple[str | None, str], dict[str, int]] = {}
    world = _world_size(definition, data)
    for column in definition.columns:
        if column.task and row.is_of(column):
            samples_of_task = groups.setdefault((column.subset, column.judge), {})
            samples_of_task[column.task] = _samples(column.task, data, world, column.subset)
    for (subset, judge), samples in groups.items():
        command = ["eval", "--model", _filled(spec, out), "--tasks", ",".join(samples)]
        command += ["--data", data, "--out", str(out / "runs")]
        command += ["--subset", subset] if subset else []
        command += ["--judge", judge] if judge else []
        command += [word for metric in definition.metrics for word in ("--metrics", metric)]
        name = f"eval {row.row}" + (f" with the package {row.package}" if row.package else "")
        needs = (Package(row.package),) if row.package else ()
        backend = spec.arguments.get("backend")
        endpoints = tuple(servers(backend)) if isinstance(backend, Spec) else ()
        rates = measured(out / "runs", _filled(spec, out), samples, None if endpoints else device)
        if endpoints or rates:
            yield Step(
                name=name,
                command=tuple(command),
                samples=samples,
                needs=endpoints or needs,
                estimate=estimate_by(rates, samples),
                measured=sentences(rates, samples),
            )
            continue
        network = _with_networks(definition, spec)
        estimated = partial(_evaluation_estimate, spec=network, samples=samples)
        learns = adaptation is not None and "finetune" in adaptation
        changes = [{"offload": "optimizer"}, {"finetune": "lora"}] if learns else []
        yield Step(
            name=name,
            command=tuple(command),
            estimate=estimated(adaptation, device=device),
            samples=samples,
            needs=needs,
            ways=_ways(estimated, adaptation, device, changes, form="{} in --model"),
        )


def _evaluation_estimate(
    adaptation: Mapping[str, object] | None,
    *,
    device: Device,
    spec: Spec,
    samples: Mapping[str, int],
) -> Estimate:
    """Estimate the evaluation of a model on tasks, given their numbers of samples."""
    estimates = [
        estimate.evaluation(
            size=size_of(spec),
            samples=count or estimate.UNKNOWN_SAMPLES,
            device=device,
            is_video=_is_video(task),
            adaptation=adaptation,
            model=spec.name,
        )
        for task, count in samples.items()
    ]
    return Estimate(
        sum(cost.hours for cost in estimates),
        max(cost.memory for cost in estimates),
        host=max(cost.host for cost in estimates),
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
    """Return the changes with which a command fits a device, and devices on which it fits as it is.

    Empty if it fits.

    Args:
        estimated: Estimates the command from settings, on a device.
        settings: Settings of the command.
        device: The device.
        changes: Changes of settings to try.
        form: Text of a change on the command line, with {} for `name=value,…`.
        before: Ways that are listed first.
    """
    if estimated(settings, device=device).memory <= device.memory:
        return ()
    ways = list(before)
    for change in changes:
        cost = estimated({**(settings or {}), **change}, device=device)
        if cost.memory <= device.memory:
            text = ",".join(f"{name}={_typed(value)}" for name, value in change.items())
            ways.append(f"{form.format(text)}: {cost.memory:,.0f} GB, about {cost.time}")
    costs = [(gpu, estimated(settings, device=gpu)) for gpu in GPUS]
    larger = [f"{gpu.name} (about {cost.time})" for gpu, cost in costs if cost.memory <= gpu.memory]
    if larger:
        ways.append(f"as it is on {' or '.join(larger)}")
    return tuple(ways)


def _typed(value: object) -> str:
    return "none" if value is None else str(value)


def _filled(spec: Spec, out: Path) -> str:
    """Return a SPEC with the folders of trainings in place of their names."""
    return SLOT.sub(lambda match: str(out / "trainings" / match[1]), str(spec))


@cache
def _defaults(kind: plugins.Kind, name: str) -> Mapping[str, object]:
    """Return the defaults of a plugin's arguments."""
    parameters = inspect.signature(plugins.load(kind, name)).parameters
    return {key: parameter.default for key, parameter in parameters.items()}


def size_of(spec: Spec) -> float:
    """Return the parameters of the VLM in 10^9, also inside other models; 0 without a network."""
    base: Value = spec
    while isinstance(base, Spec):
        if not {"base", "checkpoint"} & _defaults("models", base.name).keys():
            return 0.0
        base = base.arguments.get("base") or base.arguments.get("checkpoint") or base.name
    return estimate.parameters(str(base))


def _with_networks(definition: Definition, spec: Spec) -> Spec:
    """Return a SPEC with the network that a training begins with in place of the training."""
    arguments: dict[str, Value] = {}
    for name, value in spec.arguments.items():
        training = SLOT.fullmatch(value) if isinstance(value, str) else None
        if training is not None:
            start = _with_networks(definition, definition.trainings[training[1]].begins_with())
            value = start.arguments.get("checkpoint") or start.name
        arguments[name] = _with_networks(definition, value) if isinstance(value, Spec) else value
    return Spec(spec.name, arguments)


def _world_size(definition: Definition, data: str) -> int:
    """Return the number of samples of a split of the generated world for a board of `pocket`.

    It is the default size if the world is not written yet; 0 for other boards and for real data.
    """
    if not is_small(definition):
        return 0
    path = Path(data) / GENERATED
    if path.is_file():
        return int(read_json(path)["size"])
    return 0 if path.parent.is_dir() else estimate.WORLD_SAMPLES


@cache
def _samples(task: str, data: str, world: int, subset: str | None = None) -> int:
    """Return the number of samples of a task; 0 if it is not known.

    The first that is known: the generated world's size, the subset's (`first200`, `random-50`), the
    SPEC's `sample`, the published number, or the count in the data folder.
    """
    spec = parse(task)
    if world:
        return world
    if subset:
        return int(subset.rpartition("-")[2].removeprefix("first"))
    if isinstance(requested := spec.arguments.get("sample"), int):
        return requested
    card = plugins.find_card(spec.name)
    if card is None:
        return _count(spec, Path(data))
    split = str(spec.arguments.get("split", card.default_split))
    published = card.published_counts(split, {"protocol": card.protocol, **spec.arguments})[0]
    thousands = re.search(r"_(\d+)k$", spec.name)  # visionreasoner_7k
    return published or (int(thousands[1]) * 1000 if thousands else _count(spec, Path(data)))


def _count(spec: Spec, root: Path) -> int:
    """Count the samples of a task below a data root; 0 in a generated world or without data.

    0 also if a file cannot be read, because the command itself reports that.
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

"""`harness reproduce`: the trainings, evaluations and board that make a paper's table."""

import inspect
import os
import re
import shlex
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness import plugins
from harness.cli.data import writers
from harness.cli.doctor import gpus
from harness.cli.output import show_json
from harness.cli.spec_arguments import ROOT, require
from harness.errors import UsageError
from harness.leaderboards.definitions import (
    RUN_BY,
    SLOT,
    BoardRow,
    Column,
    Definition,
    TrainingStep,
    definitions,
    find,
)
from harness.leaderboards.estimate import (
    DEVICES,
    UNKNOWN,
    Device,
    Estimate,
    device_of,
    evaluation,
    parameters,
    training,
)
from harness.leaderboards.published_results import PAPERS
from harness.run.contamination import Training
from harness.spec import Spec, Value, parse, parse_list

TRAININGS, RUNS = "trainings", "runs"
SMALL, SMALL_CONFIG = "pocket", "pocket_cpu"
"""The model and the configurations that take the place of a paper's with `--pocket`."""
HOW = frozenset(
    {"model", "train_tasks", "eval_model", "finetune", "freeze_vision", "dtype", "deepspeed"}
    | {"gradient_checkpointing", "generation_batch_size", "num_generations", "save_steps", "top_p"}
    | {"per_device_train_batch_size", "max_prompt_length", "max_completion_length", "max_length"}
    | {"learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay", "max_grad_norm"}
    | {"max_steps", "num_train_epochs", "dataloader_num_workers", "gradient_accumulation_steps"}
    | {"beta", "form", "loss_type", "epsilon", "temperature", "entropy_coef"}
)
"""Keys of a configuration that suit large networks: `--pocket` has those of `pocket_cpu`."""
SMALL_PROMPT = 200
"""Tokens of a prompt to pocket, whose images are 36."""
VIDEO_FORMS = frozenset({"mask_track", "box_track", "choice", "number", "text", "interval"})
"""Forms of answer of tasks about videos."""
ASSUMED = "A100-80GB"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command."""

    kind: str
    name: str
    command: tuple[str, ...]
    """Arguments of `harness`."""
    processes: int = 1
    estimate: Estimate | None = None
    notes: tuple[str, ...] = ()
    done: bool = False

    @property
    def line(self) -> list[str]:
        """The command as a shell takes it."""
        if self.processes == 1:
            return ["harness", *self.command]
        several = ["accelerate", "launch", "--num_processes", str(self.processes)]
        return [*several, "--mixed_precision", "bf16", "-m", "harness", *self.command]

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        found = self.estimate
        return {
            "kind": self.kind,
            "name": self.name,
            "command": self.line,
            "hours": found and round(found.hours, 3),
            "memory_gb": found and round(found.memory, 1),
            "notes": list(self.notes),
            "done": self.done,
        }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What makes a table."""

    definition: Definition
    device: Device
    steps: tuple[Step, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Rows that are not made here, and why."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for."""

    data: str
    out: Path
    pocket: bool = False
    settings: tuple[str, ...] = ()
    device: Device


def reproduce(arguments: Namespace) -> int:
    """Print what makes a table, and run it unless `--dry-run` is given."""
    definition = find(arguments.paper, arguments.table)
    if not arguments.dry_run:
        require(arguments, data=ROOT)
    request = Request(
        data=str(arguments.data or "ROOT"),
        out=arguments.out,
        pocket=arguments.pocket,
        settings=tuple(arguments.set or ()),
        device=_device(arguments),
    )
    made = plan(definition, request)
    if arguments.json:
        rows = {"left_out": dict(made.left_out), "steps": [step.to_json() for step in made.steps]}
        show_json({"title": definition.heading, "device": made.device.name, **rows})
    else:
        _show(made)
    return 0 if arguments.dry_run else _run(made)


def _device(arguments: Namespace) -> Device:
    if arguments.pocket and not arguments.device:
        return device_of("CPU") or _unknown("CPU")
    text = arguments.device or " ".join(gpus()) or ASSUMED
    return device_of(text) or _unknown(text)


def _unknown(text: str) -> Device:
    names = ", ".join(one.name for one in DEVICES)
    raise UsageError("--device", expected=f"one of {names}", found=text)


def plan(definition: Definition, request: Request) -> Plan:
    """Return the commands that make a table, in their order.

    Raises:
        DataError: a configuration is missing.
        UsageError: a model of the board is not installed, or does not take an argument.
    """
    steps: dict[str, Step] = {}
    left_out: dict[str, str] = {}
    evaluations: dict[tuple[str, ...], Step] = {}
    for row in definition.rows:
        why = "" if row.model else "not made here: see docs/models.md for how it is reached"
        spec = parse(row.model) if row.model else Spec("")
        if row.model and request.pocket:
            spec, why = _small(spec)
        if why:
            left_out[row.row] = why
            continue
        try:
            trained = list(_trainings(definition, spec, request))
        except _TooLarge as error:
            left_out[row.row] = str(error)
            continue
        steps.update({step.name: step for step in trained})
        for step in _evaluations(definition, row, spec, request):
            evaluations.setdefault(step.command, step)
    board = ["board", "build"]
    if request.pocket:
        board += ["--title", f"{definition.heading}, with pocket"]
    else:
        is_installed = definition in definitions()
        name = f"{definition.paper}/{definition.table}" if is_installed else definition.file
        board += ["--board", str(name)]
    board += ["--runs", str(request.out / RUNS), "--out", str(_board(definition, request))]
    last = [Step(kind="board", name=definition.heading, command=tuple(board))]
    if definition.report:
        report = ["board", definition.report, "--runs", str(request.out / RUNS)]
        report += ["--out", str(_board(definition, request))]
        last.append(Step(kind="board", name=definition.report, command=tuple(report)))
    return Plan(
        definition=definition,
        device=request.device,
        steps=(*steps.values(), *evaluations.values(), *(last if evaluations else ())),
        left_out=left_out,
    )


class _TooLarge(Exception):
    """A training has no small counterpart."""


def _board(definition: Definition, request: Request) -> Path:
    return request.out / f"{definition.paper}-{definition.table}"


def _trainings(definition: Definition, spec: Spec, request: Request) -> Iterator[Step]:
    """Yield the trainings that a SPEC names, those that they begin with first."""
    for name in SLOT.findall(str(spec)):
        step = definition.trainings[name]
        config = step.read()
        start = parse(step.start or config["model"])
        if request.pocket:
            start, why = _small(start)
            if why:
                raise _TooLarge(why)
            if SMALL_CONFIG not in _configs(step.method):
                raise _TooLarge(f"{step.method} has no configuration {SMALL_CONFIG}")
        yield from _trainings(definition, start, request)
        yield _training(name, step, start, config, request)


def _training(
    name: str, step: TrainingStep, start: Spec, config: Mapping[str, Any], request: Request
) -> Step:
    folder = request.out / TRAININGS / name
    used = SMALL_CONFIG if request.pocket else step.config
    command = ["train", "--method", step.method, "--config", used, "--data", request.data]
    command += ["--out", str(folder)]
    tasks = _listed(config["train_tasks"])
    if step.start or request.pocket:
        command += ["--model", str(_filled(start, request))]
    settings = list(step.set)
    if request.pocket:
        settings = [_typed(key, value) for key, value in config.items() if key not in HOW]
        tasks, given = _small_tasks(tasks, step)
        command += ["--train-tasks", ",".join(given)] if given else []
        config = replace(step, config=SMALL_CONFIG).read()
    for text in (*settings, *request.settings):
        command += ["--set", text]
    there = (folder / "manifest.json").is_file()
    if there:
        command.append("--resume")
    processes = 1 if request.pocket else step.processes
    counts = {task: _samples(task) for task in tasks}
    typed = dict(parse(f"x({','.join(request.settings)})").arguments) if request.settings else {}
    small = {"max_prompt_length": SMALL_PROMPT} if request.pocket else {}
    estimate = training(
        {**_defaults(step.method), **config, **typed, **small},
        size=parameters(SMALL if request.pocket else str(_checkpoint(start))),
        samples=sum(count or UNKNOWN for count in counts.values()),
        device=request.device,
        processes=processes,
    )
    return Step(
        kind="train",
        name=name,
        command=tuple(command),
        processes=processes,
        estimate=estimate,
        notes=tuple(_notes(counts, estimate, request)),
        done=there and Training.open(folder).is_finished,
    )


def _evaluations(
    definition: Definition, row: BoardRow, spec: Spec, request: Request
) -> Iterator[Step]:
    """Yield the evaluation of a row for each subset of its columns."""
    columns: dict[str | None, list[Column]] = {}
    for column in definition.columns:
        if column.task and (not row.tasks or column.name in row.tasks):
            # A generated world is smaller than a paper's subset.
            columns.setdefault(None if request.pocket else column.subset, []).append(column)
    model = _filled(spec, request)
    check_arguments(model)
    size = parameters(str(_checkpoint(spec)))
    adapted = dict(spec.arguments) if "steps" in _parameters(spec.name) else None
    is_estimated = definition.paper in PAPERS and not request.pocket
    for subset, members in columns.items():
        tasks = list(dict.fromkeys(column.task for column in members))
        command = ["eval", "--model", str(model), "--tasks", ",".join(tasks)]
        command += ["--data", request.data, "--out", str(request.out / RUNS)]
        command += ["--subset", subset] if subset else []
        for metric in definition.metrics:
            command += ["--metrics", metric]
        counts = {task: _samples(task, subset) for task in tasks}
        found = [
            evaluation(
                size=size,
                samples=count or UNKNOWN,
                device=request.device,
                is_video=_is_video(task),
                adaptation=adapted,
            )
            for task, count in counts.items()
        ]
        total = Estimate(
            hours=sum(one.hours for one in found), memory=max(one.memory for one in found)
        )
        yield Step(
            kind="eval",
            name=row.row,
            command=tuple(command),
            estimate=total if is_estimated else None,
            notes=tuple(_notes(counts, total, request)) if is_estimated else (),
        )


def _filled(spec: Spec, request: Request) -> Spec:
    """Return a SPEC with the folders of trainings in the place of their names."""

    def fill(value: Value) -> Value:
        if isinstance(value, Spec):
            return _filled(value, request)
        found = SLOT.fullmatch(value) if isinstance(value, str) else None
        return str(request.out / TRAININGS / found[1]) if found else value

    return Spec(spec.name, {key: fill(value) for key, value in spec.arguments.items()})


def check_arguments(spec: Spec) -> None:
    """Raise UsageError if a model, or one in it, does not take an argument."""
    known = _parameters(spec.name)
    for key, value in spec.arguments.items():
        if key not in known:
            raise UsageError(f"{spec.name}({key}=…)", expected=", ".join(known), found=key)
        if key == "base" and isinstance(value, Spec):
            check_arguments(value)


@cache
def _parameters(model: str) -> tuple[str, ...]:
    return tuple(inspect.signature(plugins.load("models", model)).parameters)


@cache
def _defaults(trainer: str) -> dict[str, Any]:
    known = inspect.signature(plugins.load("trainers", trainer)).parameters
    return {name: one.default for name, one in known.items()}


@cache
def _configs(trainer: str) -> tuple[str, ...]:
    from harness.cli.show import configs

    entry = plugins.installed_plugins("trainers").get(trainer)
    return tuple(configs(entry)) if entry is not None else ()


def _checkpoint(spec: Spec) -> Value:
    base = spec.arguments.get("base")
    return (
        _checkpoint(base) if isinstance(base, Spec) else spec.arguments.get("checkpoint", spec.name)
    )


def _typed(key: str, value: Value) -> str:
    """Return a setting as `--set` takes it."""
    return str(Spec("x", {key: value}))[2:-1]


def _listed(value: object) -> list[str]:
    texts = value if isinstance(value, list) else [str(value)]
    return [str(spec) for text in texts for spec in parse_list(text)]


@cache
def _samples(task: str, subset: str | None = None) -> int:
    """Return the published number of samples; 0 where none is."""
    spec = parse(task)
    if subset:
        return int(subset.rpartition("-")[2].removeprefix("first"))
    if isinstance(known := spec.arguments.get("sample"), int):
        return known
    card = plugins.find_card(spec.name)
    split = str(spec.arguments.get("split", card.default_split if card else ""))
    given = {"protocol": card.protocol if card else "", **spec.arguments}
    found = card.published_counts(split, given)[0] if card else 0
    named = re.search(r"_(\d+)k$", spec.name)  # such as visionreasoner_7k
    return found or (int(named[1]) * 1000 if named else 0)


def _notes(counts: Mapping[str, int], found: Estimate, request: Request) -> Iterator[str]:
    names = [task for task, count in counts.items() if not count]
    if names and not request.pocket:
        yield f"{UNKNOWN:,} samples assumed of {', '.join(names)}, whose number is not published"
    if found.memory > request.device.memory:
        yield f"more than the {request.device.memory:.0f} GB of one {request.device.name}"


@cache
def _is_video(task: str) -> bool:
    card = plugins.find_card(parse(task).name)
    return card is not None and bool(VIDEO_FORMS & {*card.forms})


def _small(spec: Spec) -> tuple[Spec, str]:
    """Return a model with pocket in the place of its network, or why there is none."""
    base = spec.arguments.get("base")
    if isinstance(base, Spec):
        inner, why = _small(base)
        return Spec(spec.name, {**spec.arguments, "base": inner}), why
    trainer = {"videochat_r1": "", "dt_r1": ""}.get(spec.name, spec.name)
    if spec.arguments.get("form") == "sam3" or "backend" in spec.arguments or not trainer:
        return spec, "there is no small counterpart"
    own = {key: value for key, value in spec.arguments.items() if key not in RUN_BY}
    if spec.name in (SMALL, "saliency", "random", "whole_frame"):
        return spec, ""
    if SMALL_CONFIG in _configs(trainer):
        step = TrainingStep(method=trainer, config=SMALL_CONFIG)
        small = parse(str(step.read()["model"]))
    else:
        small = Spec(SMALL)
    own = {key: value for key, value in own.items() if key in _parameters(small.name)}
    if not SLOT.search(str(own.get("checkpoint"))):
        own["checkpoint"] = small.arguments.get("checkpoint", SMALL)
    if small.name == SMALL:
        own.pop("prompt", None)
        return Spec(SMALL, own), ""
    parts = {"segmenter": "pocket_sam", "propagator": "pocket_sam_video"}
    if "segmenter" in spec.arguments and str(spec.arguments["segmenter"]) == "box":
        parts = {"segmenter": "box", "propagator": "still"}
    return Spec(small.name, {**small.arguments, **own, **parts}), ""


@cache
def _written() -> frozenset[str]:
    """Return the tasks that a generated world has."""
    return frozenset(writers())


def _small_tasks(tasks: Sequence[str], step: TrainingStep) -> tuple[list[str], list[str]]:
    """Return the tasks of a small training, and those of the paper's that a world can have."""
    written = _written()
    if all(parse(task).name in written for task in tasks):
        return list(tasks), list(tasks)
    return _listed(replace(step, config=SMALL_CONFIG).read()["train_tasks"]), []


def _show(made: Plan) -> None:
    print(made.definition.heading)
    for row, why in made.left_out.items():
        print(f"  left out: {row}: {why}")
    hours = [step.estimate.hours for step in made.steps if step.estimate and not step.done]
    for step in made.steps:
        state = "finished" if step.done else str(step.estimate or "")
        where = f" on {step.processes} × {made.device.name}" if step.estimate else ""
        print(f"\n# {step.kind}: {step.name}{'; ' + state + where if state else ''}")
        for note in step.notes:
            print(f"#   {note}")
        print(shlex.join(step.line))
    if hours:
        print(
            f"\nabout {sum(hours):,.1f} hours in all by docs/published.md's formula; "
            "a factor of 3 either way is its uncertainty"
        )


def _run(made: Plan) -> int:
    """Run the commands; the exit code of the first that fails, else 0."""
    for step in made.steps:
        if step.done:
            continue
        line = [sys.executable, "-m", "harness", *step.command]
        if step.processes > 1:
            line = [sys.executable, "-m", "accelerate.commands.launch", *step.line[2:]]
        sys.stdout.flush()
        code = subprocess.run(line, env=os.environ, check=False).returncode
        if code:
            print(f"harness: {step.kind} {step.name} ended with {code}", file=sys.stderr)
            return code
    return 0

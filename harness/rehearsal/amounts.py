"""Smaller amounts of the same: a generated world, few steps, few rollouts, two processes."""

import inspect
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness import plugins
from harness.cli.train import configured, method_of
from harness.spec import Spec, parse_list
from harness.testing.shapes import make_shapes, writers
from harness.types import AnswerForm
from harness.world.shapes import TRAIN_FACTOR

SIZE = 4
"""Samples a split of the generated world."""
STEPS = 2
"""Optimiser steps of a training."""
TOTAL = 20
"""Samples of a mixture that draws a number of them from its sets, with repeats."""
PROCESSES = 2
"""Processes of a training that the paper gives more."""
ROLLOUTS = 4
"""Rollouts of a prompt."""
UNSET = ("no limit", "no value")
"""Words for a setting without a value: for one that names a maximum, and for any other."""
COMPLETION = 4096
"""Tokens of a rollout at most, unless the method has fewer."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """An amount or setting of a training that is another one here."""

    name: str
    here: str
    published: str
    training: str = field(kw_only=True)
    """Name of the training; of a single command, its method's."""


def described(replaced: Sequence[Replaced]) -> list[str]:
    """Return a line for each amount, with the trainings that have it."""
    trainings: dict[tuple[str, str, str], list[str]] = {}
    for amount in dict.fromkeys(replaced):
        key = amount.name, amount.here, amount.published
        trainings.setdefault(key, []).append(amount.training)
    return [
        f"{name} of {', '.join(names)}: {here}"
        + (f"; the default has {given}" if given in UNSET else f" in place of {given}")
        for (name, here, given), names in trainings.items()
    ]


def make_world(root: Path, tasks: Sequence[str] | None = None) -> str:
    """Write the generated world for tasks, unless it is there; return what it is.

    All of it is written for None, and for tasks without a writer of their own, which are mixtures
    of others.
    """
    known = writers()
    names = sorted(set(tasks)) if tasks is not None and known.keys() >= {*tasks} else None
    if not (root / "shapes.json").is_file() and names != []:
        make_shapes(root, tasks=names, size=SIZE)
    return (
        f"data: the generated world in each benchmark's official layout, {SIZE} samples a split "
        f"({SIZE * TRAIN_FACTOR} for training)"
    )


def with_data(arguments: Sequence[str], root: Path) -> list[str]:
    """Return a command's arguments with another data root."""
    replaced = list(arguments)
    for place, text in enumerate(replaced):
        if text == "--data":
            replaced[place + 1] = str(root)
            return replaced
        if text.startswith("--data="):
            replaced[place] = f"--data={root}"
            return replaced
    return [*replaced, "--data", str(root)]


def combined(arguments: Sequence[str], small: Sequence[str]) -> list[str]:
    """Return a training's arguments with those that make it small, whose tasks replace its own."""
    kept, dropped = [], False
    for text in arguments:
        if dropped:
            dropped = False
        elif "--train-tasks" in small and text.partition("=")[0] == "--train-tasks":
            dropped = "=" not in text
        else:
            kept.append(text)
    return [*kept, *small]


def training(given: Namespace, processes: int, folder: Path) -> tuple[list[str], list[Replaced]]:
    """Return the options that make a training small, and what they replace.

    Args:
        given: The options of `harness train`, as typed.
        processes: Number of its processes here.
        folder: Where files go that the configuration names by relative paths.
    """
    options, settings = configured(given)
    method = method_of(options, settings)
    known = _settings(method)
    small: dict[str, object] = {"max_steps": STEPS}
    if "generation_batch_size" in known:
        rollouts = min(ROLLOUTS, int(known["num_generations"]))
        small["num_generations"] = rollouts
        small["generation_batch_size"] = rollouts * processes
        small["per_device_train_batch_size"] = min(
            rollouts, int(known["per_device_train_batch_size"])
        )
    else:
        small["per_device_train_batch_size"] = min(2, int(known["per_device_train_batch_size"]))
    if "gradient_accumulation_steps" in known:
        small["gradient_accumulation_steps"] = min(2, int(known["gradient_accumulation_steps"]))
    if "max_completion_length" in known:
        small["max_completion_length"] = min(COMPLETION, int(known["max_completion_length"]))
    if known.get("ratings") and not Path(known["ratings"]).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        small["ratings"] = str(folder / Path(known["ratings"]).name)
    for package, name in (("deepspeed", "deepspeed"), ("vllm", "vllm_mode")):
        if known.get(name) is not None and find_spec(package) is None:
            small[name] = None
    changed = {name: value for name, value in small.items() if known.get(name) != value}
    typed = [
        part for name, value in changed.items() for part in ("--set", f"{name}={_text(value)}")
    ]
    amounts = list(_replaced(changed, known, method.name))
    tasks = [spec for text in options.train_tasks or () for spec in parse_list(text)]
    smaller = [_with_fewer_samples(spec) for spec in tasks]
    if smaller != tasks:
        typed += ["--train-tasks", ",".join(map(str, smaller))]
        amounts += [
            Replaced("training samples", str(reduced), str(spec), training=method.name)
            for spec, reduced in zip(tasks, smaller, strict=True)
            if reduced != spec
        ]
    return typed, amounts


def _with_fewer_samples(task: Spec) -> Spec:
    """Return the SPEC of a training's task; `total`, the size of a mixture, is at most `TOTAL`."""
    parameters = inspect.signature(plugins.load("tasks", task.name)).parameters
    if "total" not in parameters:
        return task
    total = min(TOTAL, int(task.arguments.get("total", parameters["total"].default)))
    return replace(task, arguments={**task.arguments, "total": total})


def _settings(method: Spec) -> Mapping[str, Any]:
    """Return the settings of a trainer: given, or by default."""
    parameters = inspect.signature(plugins.load("trainers", method.name)).parameters
    defaults = {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    return {**defaults, **method.arguments}


def _replaced(
    changed: Mapping[str, object], known: Mapping[str, Any], training: str
) -> Iterator[Replaced]:
    for name, value in changed.items():
        if value is None:
            here = "none (the package is not installed here)"
        else:
            here = "a file in the rehearsal's folder" if name == "ratings" else str(value)
        published = known.get(name)
        unset = UNSET[not name.startswith("max_")]
        yield Replaced(
            name, here, unset if published is None else str(published), training=training
        )


def _text(value: object) -> str:
    return "none" if value is None else str(value)


def tasks_of(texts: Sequence[str] | None) -> set[str]:
    """Return the names of the tasks of an option."""
    return {spec.name for text in texts or () for spec in parse_list(text)}


def forms_of(texts: Sequence[str] | None, root: Path) -> set[AnswerForm]:
    """Return the forms of answer that the tasks of an option ask for."""
    specs = [spec for text in texts or () for spec in parse_list(text)]
    return {form for spec in specs for form in plugins.build("tasks", spec, root).forms}

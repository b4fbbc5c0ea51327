"""Reduction of a rehearsed command: generated data, few optimiser steps, few rollouts.

`command` puts these data roots and training settings into published commands, and prints what was
`Replaced`.
"""

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
from harness.testing.shapes import writers
from harness.types import AnswerForm
from harness.world.shapes import TRAIN_FACTOR, Progress, make

N_SAMPLES = 4
"""Samples a split of the generated world."""
N_STEPS = 2
"""Optimiser steps of a training."""
MAX_TOTAL = 20
"""Samples of a mixture that draws a number of them from its sets, with repeats."""
MAX_PROCESSES = 2
"""Processes of a training that the paper gives more."""
MAX_ROLLOUTS = 4
"""Rollouts of a prompt."""
UNSET = ("no limit", "no value")
"""Words for a published setting of None: of a maximum (`max_…`), and of any other."""
MAX_TOKENS = 4096
"""Most tokens of a rollout."""
BENCHMARKS_OF_TASK: Mapping[str, tuple[str, ...]] = {
    "reason_seg_train": ("reason_seg",),
    "videoseg_r1_15k": ("mevis", "ref_youtube_vos", "ref_davis17"),
}
"""Benchmarks whose files a task without files of its own reads."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """An amount or setting of a training that the rehearsal replaced."""

    name: str
    here: str
    """Value in the rehearsal."""
    published: str
    """Value in the published configuration."""
    training: str = field(kw_only=True)
    """Name of the training; for a single command, its method's."""


def described(replaced: Sequence[Replaced]) -> list[str]:
    """Return a line for each replaced amount, with the names of its trainings."""
    trainings: dict[tuple[str, str, str], list[str]] = {}
    for amount in dict.fromkeys(replaced):
        key = amount.name, amount.here, amount.published
        trainings.setdefault(key, []).append(amount.training)
    return [
        f"{name} of {', '.join(names)}: {here}"
        + (f"; the default has {published}" if published in UNSET else f" in place of {published}")
        for (name, here, published), names in trainings.items()
    ]


def make_world(root: Path, tasks: Sequence[str], progress: Progress | None = None) -> str:
    """Write the generated world for these tasks, unless it is there; return its description.

    All benchmarks are written if a task has no writer of its own and is not in
    `BENCHMARKS_OF_TASK`, as its files are then unknown.
    """
    by_task = writers()
    names = {name for task in tasks for name in BENCHMARKS_OF_TASK.get(task, (task,))}
    chosen = {name: by_task[name] for name in (names if by_task.keys() >= names else by_task)}
    if chosen and not (root / "shapes.json").is_file():
        make(root, seed=0, size=N_SAMPLES, writers=chosen, progress=progress)
    return (
        f"data: the generated world in each benchmark's official layout, {N_SAMPLES} samples a "
        f"split ({N_SAMPLES * TRAIN_FACTOR} for training)"
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
    """Return a training's arguments followed by `small`, those that make it small.

    If `small` has `--train-tasks`, the training's own are left out.
    """
    own, is_value_of_tasks = [], False
    for text in arguments:
        if is_value_of_tasks:
            is_value_of_tasks = False
        elif "--train-tasks" in small and text.partition("=")[0] == "--train-tasks":
            is_value_of_tasks = "=" not in text
        else:
            own.append(text)
    return [*own, *small]


def training(given: Namespace, processes: int, folder: Path) -> tuple[list[str], list[Replaced]]:
    """Return (the options that make a training small, what they replace).

    Args:
        given: The options of `harness train`, as typed.
        processes: Number of its processes here.
        folder: Folder for files that the configuration names by relative paths; it need not exist.
    """
    options, settings = configured(given)
    method = method_of(options, settings)
    published = _settings(method)
    # Most CPUs compute bfloat16 in software: a step takes four times as long as in float32.
    reduced: dict[str, object] = {"max_steps": N_STEPS, "dtype": "float32", "bf16": False}
    if "generation_batch_size" in published:
        rollouts = min(MAX_ROLLOUTS, int(published["num_generations"]))
        reduced["num_generations"] = rollouts
        reduced["generation_batch_size"] = rollouts * processes
        reduced["per_device_train_batch_size"] = min(
            rollouts, int(published["per_device_train_batch_size"])
        )
    else:
        reduced["per_device_train_batch_size"] = min(
            2, int(published["per_device_train_batch_size"])
        )
    if "gradient_accumulation_steps" in published:
        reduced["gradient_accumulation_steps"] = min(
            2, int(published["gradient_accumulation_steps"])
        )
    if "max_completion_length" in published:
        reduced["max_completion_length"] = min(MAX_TOKENS, int(published["max_completion_length"]))
    if published.get("ratings") and not Path(published["ratings"]).is_file():
        reduced["ratings"] = str(folder / Path(published["ratings"]).name)
    for package, name in (("deepspeed", "deepspeed"), ("vllm", "vllm_mode")):
        if published.get(name) is not None and find_spec(package) is None:
            reduced[name] = None
    changed = {
        name: value
        for name, value in reduced.items()
        if name in published and published[name] != value
    }
    arguments = [
        part for name, value in changed.items() for part in ("--set", f"{name}={_text(value)}")
    ]
    amounts = list(_replaced(changed, published, method.name))
    tasks = [spec for text in options.train_tasks or () for spec in parse_list(text)]
    smaller_tasks = [_with_fewer_samples(spec) for spec in tasks]
    if smaller_tasks != tasks:
        arguments += ["--train-tasks", ",".join(map(str, smaller_tasks))]
        amounts += [
            Replaced("training samples", str(smaller), str(spec), training=method.name)
            for spec, smaller in zip(tasks, smaller_tasks, strict=True)
            if smaller != spec
        ]
    return arguments, amounts


def _with_fewer_samples(task: Spec) -> Spec:
    """Return the SPEC of a task with `total`, the size of a mixture, of at most `MAX_TOTAL`."""
    parameters = inspect.signature(plugins.load("tasks", task.name)).parameters
    if "total" not in parameters:
        return task
    total = min(MAX_TOTAL, int(task.arguments.get("total", parameters["total"].default)))
    return replace(task, arguments={**task.arguments, "total": total})


def _settings(method: Spec) -> Mapping[str, Any]:
    """Return all settings of a trainer, with defaults for those that are not given."""
    parameters = inspect.signature(plugins.load("trainers", method.name)).parameters
    defaults = {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    return {**defaults, **method.arguments}


def _replaced(
    changed: Mapping[str, object], settings: Mapping[str, Any], training: str
) -> Iterator[Replaced]:
    """Yield a record of each changed setting."""
    for name, value in changed.items():
        if value is None:
            here = "none (the package is not installed here)"
        else:
            here = "a file in the rehearsal's folder" if name == "ratings" else str(value)
        published = settings.get(name)
        unset = UNSET[0] if name.startswith("max_") else UNSET[1]
        yield Replaced(
            name, here, unset if published is None else str(published), training=training
        )


def _text(value: object) -> str:
    return "none" if value is None else str(value)


def tasks_of(texts: Sequence[str] | None) -> set[str]:
    """Return the names of the tasks in texts of `--tasks` or `--train-tasks`."""
    return {spec.name for text in texts or () for spec in parse_list(text)}


def forms_of(texts: Sequence[str] | None, root: Path) -> set[AnswerForm]:
    """Return the forms of answer of the tasks in texts of `--tasks`; `root` is the data root."""
    specs = [spec for text in texts or () for spec in parse_list(text)]
    return {form for spec in specs for form in plugins.build("tasks", spec, root).forms}

"""The plan that `harness train --dry-run` prints: settings, data, estimated time and memory.

What would refuse the training is checked too; no network is loaded and nothing is written.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from harness import plugins
from harness.chosen.checkpoint_evaluator import CheckpointEvaluator
from harness.errors import MissingCheckpoint, UsageError, counted
from harness.leaderboards import estimate
from harness.leaderboards.estimate import Device
from harness.leaderboards.table_commands import Step, size_of, training_step
from harness.machine import gpus
from harness.plain import json_scalar
from harness.run.batching import samples_of
from harness.run.resumed_training import resumed_manifest
from harness.run.sample_cache import read_once
from harness.run.train import PreparedTraining, TrainingOptions, prepare
from harness.run.training_record import MANIFEST
from harness.spec import Spec
from harness.task import Task
from harness.trainer import Trainer

COVERED_SETTING = "per_device_train_batch_size"
"""Setting by which trainers are known whose time and memory the formula covers."""


def training_plan(
    plan: dict[str, Any],
    method: Spec,
    trainer: Trainer,
    train_tasks: list[tuple[Spec, Task]],
    watch: CheckpointEvaluator,
    options: TrainingOptions,
    check_evaluations: Callable[[], None],
    device_name: str | None,
    processes: int,
) -> Iterator[tuple[str, str]]:
    """Yield (title, paragraph) on settings, data and estimate, then check what can be checked.

    Paragraphs come before the checks, so that they are printed even if the training is refused.
    If the files of a network are not on this machine, the last paragraph says so.

    Args:
        plan: Receives the same facts as plain data, for `--json`.
        method: SPEC of the trainer.
        trainer: The trainer.
        train_tasks: SPEC and task of each task to train on.
        watch: Evaluates the checkpoints; holds their tasks, the model and the training folder.
        options: Settings of the training.
        check_evaluations: Raises the errors that the evaluations would end with.
        device_name: The device to estimate for; None: this machine's.
        processes: Number of processes to estimate for.

    Raises:
        HarnessError: the training would be refused with this error.
    """
    if processes < 1:
        raise UsageError("processes", expected="a number ≥ 1", found=str(processes))
    tasks = [read_once(task) for _, task in train_tasks]
    settings = json.loads(json.dumps(dict(trainer.describe()), default=json_scalar))
    plan["method"] = {"name": trainer.name, "spec": str(method), "settings": settings}
    plan["model"] = None if watch.model is None else str(watch.model)
    plan["seed"] = options.seed
    typed = (f"{name}={_typed(value)}" for name, value in settings.items())
    yield "method", f"{method.name}: {', '.join(typed)}"
    yield "model", f"{plan['model'] or 'none'}, seed {plan['seed']}"
    names = [str(spec) for spec, _ in train_tasks]
    plan["train_tasks"] = dict(zip(names, map(_count, tasks), strict=True))
    plan["eval_tasks"] = {str(spec): _count(task) for spec, task in watch.tasks}
    plan["eval_model"] = str(watch.spec(watch.out)) if watch.tasks else None
    for name, count in plan["train_tasks"].items():
        yield "data", f"{counted(count, 'sample')} of {name}"
    for name, count in plan["eval_tasks"].items():
        yield "eval", f"{counted(count, 'sample')} of {name}, by {plan['eval_model']}"
    device = _device(device_name, watch.model)
    step = _estimated_step(method, watch.model, plan["train_tasks"], device, processes)
    plan["estimate"] = _plain_estimate(step, device)
    yield from _estimate_texts(step, watch.model, device)
    plan["out"] = str(watch.out)
    try:
        check_evaluations()
        prepared = prepare(trainer, tasks, watch.model, watch.out, options)
        trainer.check(prepared.run)
    except MissingCheckpoint as error:
        plan["lacking"] = str(error)
        yield "lacking", f"{error} What needs the checkpoint was not checked."
        return
    plan["start"] = _start_text(prepared)
    yield "out", f"{watch.out}: {plan['start']}; nothing was loaded or written"


def _typed(value: object) -> str:
    """Return a setting's value as a user types it."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _count(task: Task) -> int:
    return sum(1 for _ in samples_of(task))


def _device(name: str | None, model: Spec | None) -> Device:
    """Return the named device, or this machine's; without a GPU, an assumed one.

    Networks as small as `pocket` are trained on a CPU.
    """
    is_small = model is None or size_of(model) < estimate.SMALL_SIZE
    text = "CPU" if is_small else " ".join(gpus()) or estimate.ASSUMED_DEVICE
    return estimate.named_device(name or text)


def _estimated_step(
    method: Spec, model: Spec | None, samples: dict[str, int], device: Device, processes: int
) -> Step | None:
    """Return the training with its estimate; None if the formula does not cover it.

    `samples`: number of samples of each task by its SPEC.
    """
    if (
        not model
        or not size_of(model)
        or not plugins.accepts("trainers", method.name, COVERED_SETTING)
    ):
        return None
    return training_step(
        (),  # the words of its command, which is not printed
        method.name,
        method.arguments,
        model,
        samples,
        device,
        name="estimate",
        processes=processes,
    )


def _plain_estimate(step: Step | None, device: Device) -> dict[str, object] | None:
    """Return an estimate for `--json`."""
    if step is None or step.estimate is None:
        return None
    cost = step.estimate
    return {
        "device": device.name,
        "processes": step.processes,
        "steps": cost.steps,
        "hours": cost.hours,
        "memory_gb": cost.memory,
        "fits": step.fits(device),
        "ways": list(step.ways),
    }


def _estimate_texts(
    step: Step | None, model: Spec | None, device: Device
) -> Iterator[tuple[str, str]]:
    """Yield steps, time and memory, and what fits if the device has too little memory."""
    if step is None or step.estimate is None or model is None:
        yield (
            "estimate",
            "none: the formula covers networks of transformers that our trainers train",
        )
        return
    title, *lines = step.about(device)
    cost = title.removeprefix(f"{step.name}: ")
    size = f"{size_of(model):.3g} billion weights, by the network's files or its name"
    steps = counted(step.estimate.steps, "step")
    bounds = "on a machine that does nothing else, uncertain by a factor of 3 (docs/published.md)"
    yield "estimate", f"{steps}, {cost}; {size}; {bounds}"
    yield from (("", line.strip()) for line in lines if not line.startswith("  samples:"))


def _start_text(prepared: PreparedTraining) -> str:
    """Return in words what the training would do with its folder: begin, resume or nothing."""
    out = prepared.run.out
    if not (out / MANIFEST).is_file():
        return "a new training"
    manifest = resumed_manifest(
        prepared.trainer,
        out,
        prepared.manifest,
        prepared.samples_by_task,
        accept_code=prepared.options.accept_code,
    )
    return "a finished training" if "result" in manifest else "resumes a training"

"""Loggers that follow a training beside its curve: TensorBoard and Weights & Biases."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from harness.errors import ModelError, UsageError
from harness.plugins import plugin_errors
from harness.trainer import TrainingRun

if TYPE_CHECKING:
    from accelerate.tracking import GeneralTracker

TENSORBOARD = "tensorboard"  # also the folder of a training that holds its event files
WANDB = "wandb"


def names_of(report_to: str | None) -> list[str]:
    """Return the names in a setting such as `tensorboard+wandb`.

    `auto` is TensorBoard if it is installed; None and `none` mean none.

    Raises:
        UsageError: a name is unknown.
    """
    if report_to == "auto":
        return [TENSORBOARD] if find_spec(TENSORBOARD) is not None else []
    names = [] if report_to in (None, "none") else report_to.split("+")
    for name in names:
        if name not in (TENSORBOARD, WANDB):
            raise UsageError(
                f"report_to={report_to}",
                expected=f"names of {TENSORBOARD}, {WANDB}",
                found=repr(name),
            )
    return names


def check_loggers(report_to: str | None) -> None:
    """Check, before any work, that each logger has its package, and W&B its key.

    On a terminal W&B asks for the key; with `WANDB_MODE=offline` it needs none.

    Raises:
        UsageError: a name is unknown, or W&B has no valid key.
        MissingDependency: a package is not installed.
    """
    for name in names_of(report_to):
        with plugin_errors(f"report_to={report_to}", ModelError):
            module = import_module(name)
        if name == WANDB:
            try:
                module.login(verify=True)
            except Exception as error:
                raise UsageError(
                    f"report_to={report_to}",
                    expected="a valid key of Weights & Biases",
                    found=" ".join(str(error).split())[:300],
                    fix="Run `wandb login`, set WANDB_API_KEY, or write to the disk alone with "
                    "WANDB_MODE=offline.",
                ) from error


def loggers(
    names: str | None, run: TrainingRun, done: int, settings: Mapping[str, object]
) -> "list[GeneralTracker]":
    """Start accelerate's trackers for a setting such as `tensorboard+wandb`, and return them.

    Only the first process has any. A resumed training continues its run: TensorBoard drops the
    steps after `done`, and W&B finds the id of its run in the training's folder.

    Raises:
        UsageError: a name is unknown.
        MissingDependency: a package is not installed.
    """
    if not run.main:
        return []
    arguments: Mapping[str, Mapping[str, object]] = {
        TENSORBOARD: {
            "run_name": TENSORBOARD,
            "logging_dir": str(run.out),
            "purge_step": done + 1 if run.resume else None,
        },
        WANDB: {
            "run_name": "harness",
            "name": run.out.resolve().name,
            "dir": str(run.out),
            "resume": "auto",
            "config": dict(settings),
        },
    }
    trackers: list[GeneralTracker] = []
    for name in names_of(names):
        with plugin_errors(f"report_to={names}", ModelError):
            import_module(name)
            tracker_class = import_module("accelerate.tracking").LOGGER_TYPE_TO_CLASS[name]
            tracker = tracker_class(**arguments[name])
            tracker.start()
        trackers.append(tracker)
    return trackers


def as_in_trl(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return numbers under TRL's names: it adds `/mean` to those of a reward's components.

    >>> as_in_trl({"rewards/iou": 0.5, "rewards/iou/std": 0.1, "reward": 1.0})
    {'rewards/iou/mean': 0.5, 'rewards/iou/std': 0.1, 'reward': 1.0}
    """
    return {
        f"{name}/mean" if name.startswith("rewards/") and name.count("/") == 1 else name: number
        for name, number in numbers.items()
    }

"""Where a training's numbers are shown beside its curve: TensorBoard, Weights & Biases, Trackio."""

import secrets
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, TypeAlias

from harness.errors import MissingDependency, UsageError
from harness.store.atomic import read_json, write_json
from harness.trainer import TrainingRun
from harness.trainers.state import newest_state, step_of

Logger: TypeAlias = Callable[[int, Mapping[str, float]], None]
"""Is told a step's number, and the numbers of that step by name."""

TENSORBOARD = "tensorboard"  # the folder of a training that holds its event files
LOGGED = "logged.json"
"""The file of a training with the id that Weights & Biases and Trackio know it by."""


def loggers(names: str | None, run: TrainingRun, settings: Mapping[str, Any]) -> list[Logger]:
    """The loggers that are named.

    Args:
        names: Joined by `+`; `auto` is TensorBoard; a note says so where it is not installed.
        run: Its folder names the run.
        settings: Told to loggers that keep settings.

    Raises:
        UsageError: there is none of a name.
        MissingDependency: its package is not installed.
    """
    if names == "auto":
        names = "tensorboard" if find_spec("tensorboard") is not None else None
        if names is None and run.main:
            run.progress.note(
                "the curve is in curve.jsonl alone: TensorBoard, a part of the extra "
                "`train`, is not installed. Without this note: report_to=none"
            )
    if names is None or names == "none" or not run.main:
        return []
    made: list[Logger] = []
    for name in (part.strip() for part in names.split("+")):
        if name not in KINDS:
            raise UsageError(
                f"report_to={names}", expected=f"names of {', '.join(KINDS)}", found=repr(name)
            )
        if find_spec(name) is None:
            raise MissingDependency(
                f"report_to={names}",
                expected=f"the package {name!r}",
                found="it is not installed",
                fix="Install it.",
            )
        made.append(KINDS[name](run, settings))
    return made


def _tensorboard(run: TrainingRun, settings: Mapping[str, Any]) -> Logger:
    del settings
    from torch.utils.tensorboard.writer import SummaryWriter

    # Steps after the state that a resumed training goes on from are made, and shown, anew.
    state = newest_state(run.state) if run.resume else None
    again = (0 if state is None else step_of(state)) + 1
    writer: Any = SummaryWriter(
        str(run.out / TENSORBOARD), purge_step=again if run.resume else None
    )

    def log(step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return log


def _wandb(run: TrainingRun, settings: Mapping[str, Any]) -> Logger:
    # Of a run that is resumed, W&B itself leaves out steps that it has.
    return _kept("wandb", settings, name=run.out.resolve().name, id=_known_as(run), resume="allow")


def _trackio(run: TrainingRun, settings: Mapping[str, Any]) -> Logger:
    # It knows a run by its name alone.
    name = f"{run.out.resolve().name}-{_known_as(run)}"
    return _kept("trackio", settings, name=name, resume="allow")


def _kept(package: str, settings: Mapping[str, Any], **known: str) -> Logger:
    """A logger of the packages that share one interface: `init` and `log`."""
    from importlib import import_module

    logged: Any = import_module(package)
    logged.init(project="harness", config=dict(settings), **known)

    def log(step: int, numbers: Mapping[str, float]) -> None:
        logged.log(dict(numbers), step=step)

    return log


def _known_as(run: TrainingRun) -> str:
    """An id that nothing else has, and that the same training has again when it is resumed."""
    path = run.out / LOGGED
    if not (run.resume and path.is_file()):
        write_json(path, {"id": secrets.token_hex(4)})
    return str(read_json(path)["id"])


KINDS: Mapping[str, Callable[[TrainingRun, Mapping[str, Any]], Logger]] = {
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "trackio": _trackio,
}

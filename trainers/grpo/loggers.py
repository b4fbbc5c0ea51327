"""Where a training's numbers are shown beside its curve: TensorBoard, Weights & Biases, Trackio."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import MissingDependency, UsageError
from harness.trainer import TrainingRun

Logger: TypeAlias = Callable[[int, Mapping[str, float]], None]
"""Is told a step's number, and the numbers of that step by name."""

TENSORBOARD = "tensorboard"  # the folder of a training that holds its event files


def loggers(names: str | None, run: TrainingRun, settings: Mapping[str, Any]) -> list[Logger]:
    """The loggers that are named.

    Args:
        names: Joined by `+`; `auto` is TensorBoard if it is installed.
        run: Its folder names the run.
        settings: Told to loggers that keep settings.

    Raises:
        UsageError: there is none of a name.
        MissingDependency: its package is not installed.
    """
    if names == "auto":
        names = "tensorboard" if find_spec("tensorboard") is not None else None
    if names is None or names == "none" or not run.main:
        return []
    made: list[Logger] = []
    for name in (part.strip() for part in names.split("+")):
        if name not in KINDS:
            raise UsageError(f"loggers={names}", expected=f"names of {', '.join(KINDS)}",
                             found=repr(name))  # fmt: skip
        if find_spec(name) is None:
            raise MissingDependency(f"loggers={names}", expected=f"the package {name!r}",
                                    found="it is not installed", fix="Install it.")  # fmt: skip
        made.append(KINDS[name](run.out, settings))
    return made


def _tensorboard(out: Path, settings: Mapping[str, Any]) -> Logger:
    del settings
    from torch.utils.tensorboard.writer import SummaryWriter

    writer: Any = SummaryWriter(str(out / TENSORBOARD))

    def log(step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return log


def _kept(name: str) -> Callable[[Path, Mapping[str, Any]], Logger]:
    """A logger of the packages that share one interface: `init` and `log`."""

    def made(out: Path, settings: Mapping[str, Any]) -> Logger:
        from importlib import import_module

        package: Any = import_module(name)
        # A resumed training goes on with the same run: its name is its folder's.
        package.init(project="harness", name=out.resolve().name, config=dict(settings))

        def log(step: int, numbers: Mapping[str, float]) -> None:
            package.log(dict(numbers), step=step)

        return log

    return made


KINDS: Mapping[str, Callable[[Path, Mapping[str, Any]], Logger]] = {
    "tensorboard": _tensorboard,
    "wandb": _kept("wandb"),
    "trackio": _kept("trackio"),
}

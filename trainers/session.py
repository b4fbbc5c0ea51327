"""Frame of every training beside its steps: curve, evaluations, interruption.

`sft` (on TRL) and `grpo` (a loop of its own) share it: the curve, the loggers that are named, the
evaluations while training, Ctrl-C, and the few words that processes exchange.
"""

import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import MissingDependency, ModelError, UsageError
from harness.store.atomic import read_json, write_json
from harness.trainer import TrainingRun
from harness.trainers.state import keep_generators, newest_state, step_of

if TYPE_CHECKING:
    from accelerate.tracking import GeneralTracker

PATIENCE = 7 * 86_400
"""Seconds that processes wait for each other: as long as a benchmark takes that the first one
evaluates alone, or images that it looks at. If one dies, the launcher ends the others."""
TENSORBOARD = "tensorboard"  # also the folder of a training that holds its event files
KINDS = (TENSORBOARD, "wandb", "trackio")
LOGGED = "logged.json"
"""The file of a training with the id that Weights & Biases and Trackio know it by."""


def started() -> int:
    """Return how many processes a launcher has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def place() -> tuple[int, int]:
    """Return (number of this process, number of all) as a launcher has started them.

    Raises:
        ModelError: they do not know of each other, and each would train alone.
    """
    state = import_module("accelerate").PartialState()
    if state.num_processes != started():
        raise ModelError(
            "training in several processes",
            expected=f"{started()} that are connected",
            found=str(state.num_processes),
        )
    return int(state.process_index), int(state.num_processes)


def gather(values: Sequence[Any]) -> list[Any]:
    """Return the values of all processes, those of the first process first."""
    place()
    return list(import_module("accelerate.utils").gather_object(list(values)))


def resumed_from(run: TrainingRun) -> tuple[Path | None, int]:
    """Return the state to go on from, if there is one, and the steps that are done in it."""
    state = newest_state(run.state) if run.resume else None
    return state, 0 if state is None else step_of(state)


class Session:
    """Follows a training: its curve, its progress, its evaluations, its interruption."""

    def __init__(
        self,
        run: TrainingRun,
        snapshot: Callable[[Path], None],
        *,
        report_to: str | None,
        settings: Mapping[str, Any],
    ) -> None:
        """Follow a training; `snapshot` writes its network as it is now, in every process."""
        self.run, self._snapshot = run, snapshot
        self._loggers = loggers(report_to, run, settings)

    def evaluate(self, step: int) -> dict[str, float]:
        """Return `eval/<task>/<metric>`, if the network is evaluated after this step."""
        run = self.run
        if not run.every or run.evaluate is None or step % run.every:
            return {}
        folder, numbers = run.state / f"evaluated-{step}", dict[str, float]()
        with keep_generators():
            self._snapshot(folder)
            if run.main:
                numbers = dict(run.evaluate(folder, step))
        found: dict[str, float] = gather([numbers])[0]
        return found

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Tell a step's numbers to the curve, the loggers and whoever watches."""
        if self.run.main:
            self.run.curve.append(step, numbers)
            for logger in self._loggers:
                logger.log(dict(numbers), step=step)
        self.run.progress.step(step, numbers)

    def stopping(self) -> bool:
        """Return whether some process was asked to stop."""
        return any(gather([self.run.stopping()]))


def loggers(
    names: str | None, run: TrainingRun, settings: Mapping[str, Any]
) -> "list[GeneralTracker]":
    """Return accelerate's trackers that are named, joined by `+`; `auto` is TensorBoard.

    Raises:
        UsageError: there is none of a name.
        MissingDependency: its package is not installed.
    """
    if names == "auto":
        names = TENSORBOARD if find_spec(TENSORBOARD) is not None else None
        if names is None and run.main:
            run.progress.note(
                "the curve is in curve.jsonl alone: TensorBoard, a part of the extra "
                "`train`, is not installed. Without this note: report_to=none"
            )
    kinds = [] if names in (None, "none") or not run.main else str(names).split("+")
    made: list[GeneralTracker] = []
    for kind in map(str.strip, kinds):
        if kind not in KINDS:
            raise UsageError(
                f"report_to={names}", expected=f"names of {', '.join(KINDS)}", found=repr(kind)
            )
        if find_spec(kind) is None:
            raise MissingDependency(
                f"report_to={names}",
                expected=f"the package {kind!r}",
                found="it is not installed",
                fix="Install it.",
            )
        tracker = import_module("accelerate.tracking").LOGGER_TYPE_TO_CLASS[kind]
        name = kind if kind == TENSORBOARD else "harness"
        made.append(tracker(name, **_identity(kind, run, settings)))
        made[-1].start()
    return made


def _identity(kind: str, run: TrainingRun, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by which a resumed training is the same run to a logger, another is not."""
    if kind == TENSORBOARD:
        # Steps after the state that a resumed training goes on from are made, and shown, anew.
        again = resumed_from(run)[1] + 1 if run.resume else None
        return {"logging_dir": str(run.out), "purge_step": again}
    path, name = run.out / LOGGED, run.out.resolve().name
    if not (run.resume and path.is_file()):
        write_json(path, {"id": secrets.token_hex(4)})
    known = str(read_json(path)["id"])
    # W&B leaves out steps that it has, of a run that it knows by its id; Trackio by its name alone.
    named = {"name": name, "id": known} if kind == "wandb" else {"name": f"{name}-{known}"}
    return {"config": dict(settings), "resume": "allow", **named}


def finite(value: Any) -> float | None:
    """Return a number for a record; None where it is none."""
    number = float(value)
    return number if math.isfinite(number) else None

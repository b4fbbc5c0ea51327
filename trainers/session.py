"""Frame of every training beside its steps: state, curve, loggers, evaluations, interruption."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from harness.errors import HarnessError, ModelError, StoreError
from harness.run.timing import gpu_peak, memory_peak
from harness.trainer import TrainingRun
from harness.trainers.alarms import PREFIX, Alarms, AlarmStop, OnAlarm
from harness.trainers.loggers import as_in_trl, loggers
from harness.trainers.state import check_files, newest_state, step_of
from harness.trainers.stopwatch import Stopwatch

if TYPE_CHECKING:
    from accelerate import PartialState

T = TypeVar("T")
PATIENCE = 7 * 86_400
"""Seconds that processes wait for each other: as long as an evaluation by the first one takes."""
LAST = "numbers.json"
"""File of a state with the numbers of its last step."""


def started() -> int:
    """Return how many processes a launcher has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def processes() -> "PartialState":
    """Return what accelerate knows of all processes; ModelError if each would train alone."""
    from accelerate import PartialState

    state = PartialState()
    if state.num_processes != started():
        raise ModelError(
            "training in several processes",
            expected=f"{started()} that are connected",
            found=str(state.num_processes),
        )
    return state


def gather(values: Sequence[T]) -> list[T]:
    """Return the values of all processes, those of the first process first."""
    from accelerate.utils import gather_object

    processes()
    return list(gather_object(list(values)))


def raise_together(fault: HarnessError | None) -> None:
    """Raise, in every process, the first fault of all; called in each of them."""
    if faults := [one for one in gather([fault]) if one is not None]:
        raise faults[0]


class Session:
    """Follows a training: its state, its curve, its evaluations, its interruption."""

    def __init__(
        self,
        run: TrainingRun,
        snapshot: Callable[[Path], None],
        *,
        report_to: str | None,
        settings: Mapping[str, object],
        on_alarm: OnAlarm = "off",
        steps_per_round: int = 1,
    ) -> None:
        """Find the state to go on from, and cut the curve there.

        `snapshot` writes the network as it is now, in every process.
        """
        self.run, self._snapshot, self._turns = run, snapshot, steps_per_round
        self.alarms, self._on_alarm = Alarms(), on_alarm
        self._stopped_by: AlarmStop | None = None
        self.state = newest_state(run.state) if run.resume else None
        self.done = 0 if self.state is None else step_of(self.state)
        """Steps that are done in `state`."""
        self.saved = self.done
        """Steps that are done in the newest state."""
        if run.main:
            if run.resume and (self.done or run.curve.read()):
                where = f"resumes after step {self.done}" if self.done else "starts again at step 0"
                run.progress.note(f"{run.out}: {where}, the last state that was saved")
            run.curve.cut(self.done)
        self.stopwatch = Stopwatch()
        self._loggers = loggers(report_to, run, self.done, settings)

    def check_state(self) -> None:
        """Raise StoreError, in every process, if the state to go on from is damaged."""
        fault = None
        try:
            if self.state is not None and self.run.main:
                check_files(self.state)
        except StoreError as error:
            fault = error
        raise_together(fault)

    def evaluates(self, step: int) -> bool:
        """Return True if the network is evaluated after this step, the last one of its round.

        There a state was saved before. The step that `every` means may lie within the round.
        """
        run, before = self.run, (step - 1) // self._turns * self._turns
        return run.evaluate is not None and bool(
            run.every and step // run.every > before // run.every
        )

    def evaluate(self, step: int) -> dict[str, float]:
        """Return `eval/<task>/<metric>`, if the network is evaluated after this step."""
        import torch

        run = self.run
        if not self.evaluates(step) or run.evaluate is None:
            return {}
        folder, numbers = run.state / f"evaluated-{step}", dict[str, float]()
        with torch.random.fork_rng():
            self._snapshot(folder)
            if run.main:
                numbers = dict(run.evaluate(folder, step))
        return gather([numbers])[0]

    def log(self, step: int, numbers: Mapping[str, float], *, evaluates: bool = True) -> None:
        """Evaluate if it is time, and tell a step's numbers to all that follow the training.

        No network is evaluated within a round, where no state can be saved (`evaluates`).

        Loggers and terminals have times and memory, too; the curve has none, so that equal
        trainings have equal curves.
        """
        measured = {**self.stopwatch.take(numbers.get("step_tokens", 0.0)), **memory()}
        numbers = {**numbers, **(self.evaluate(step) if evaluates else {})}
        self.stopwatch.take(0.0)  # an evaluation is no part of the next step
        if self.run.main:
            self.run.curve.append(step, numbers)
            for logger in self._loggers:
                logger.log(as_in_trl({**numbers, **measured}), step=step)
        self.run.progress.step(step, {**numbers, **measured})

    def log_table(self, name: str, columns: Mapping[str, Sequence[object]], step: int) -> None:
        """Give a table to the loggers that take tables: W&B."""
        rows = [list(row) for row in zip(*columns.values(), strict=True)]
        for logger in self._loggers:
            if hasattr(logger, "log_table"):
                logger.log_table(name, columns=list(columns), data=rows, step=step)

    def watch(self, step: int, numbers: Mapping[str, float]) -> dict[str, float]:
        """Say which alarms a step raises; returns those that hold, for the curve.

        In the first process alone, which has the curve of a resumed training.
        """
        if self._on_alarm == "off" or not self.run.main:
            return {}
        holding, raised = self.alarms.see(step, numbers)
        for alarm in raised:
            self.run.progress.note(str(alarm))
        if raised and self._on_alarm == "stop":
            self._stopped_by = AlarmStop(
                f"training, step {step}",
                expected="no alarm (alarms=stop)",
                found="; ".join(alarm.found for alarm in raised),
                fix=f"{raised[0].fix} The state is saved; run the same command again to resume.",
            )
        return {f"{PREFIX}{name}": 1.0 for name in holding}

    def leave(self, state: Path, numbers: Mapping[str, float]) -> None:
        """Keep the numbers of a state's last step in it: they are logged after it is saved."""
        (state / LAST).write_text(json.dumps(dict(numbers)), encoding="utf-8")

    def catch_up(self) -> None:
        """Log the last step of the state that the training goes on from, if that was not done."""
        rows = self.run.curve.read() if self.run.main else []
        path = None if self.state is None else self.state / LAST
        if path is not None and path.is_file():
            logged = any(row["step"] == self.done for row in rows)
            if not gather([logged])[0]:
                rows.append({"step": self.done, **json.loads(path.read_text(encoding="utf-8"))})
                self.log(self.done, {k: v for k, v in rows[-1].items() if k != "step"})
        for row in rows if self._on_alarm != "off" else ():
            self.alarms.see(row["step"], row)

    def stopping(self) -> bool:
        """Return whether some process was asked to stop, or an alarm wants it."""
        return any(gather([self.run.stopping() or self._stopped_by is not None]))

    def stop(self) -> NoReturn:
        """Raise why the training stops, whose state is saved."""
        raise self._stopped_by or KeyboardInterrupt


def memory() -> dict[str, float]:
    """Return the peak memory of this process in 10^9 bytes: on its GPU, else resident."""
    on_gpu = gpu_peak()
    name = "perf/max_memory_allocated_gb" if on_gpu else "perf/max_memory_resident_gb"
    return {name: (on_gpu or memory_peak()) / 1e9}


def all_of(run: TrainingRun, name: str) -> list[float]:
    """Return the finite numbers of a training's curve with this name; empty: there are none."""
    numbers = [row[name] for row in run.curve.read() if name in row]
    return [float(number) for number in numbers if number is not None and math.isfinite(number)]


def last(run: TrainingRun, name: str) -> float | None:
    """Return the last number of a training's curve with this name; None: there is none finite."""
    numbers = [row[name] for row in run.curve.read() if name in row] if run.main else []
    return float(numbers[-1]) if numbers and math.isfinite(numbers[-1]) else None

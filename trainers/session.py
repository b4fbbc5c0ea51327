"""`Session`: follows a training: finds its state, logs and evaluates its steps, and stops it.

Our loop (`harness.trainers.learner`) and TRL's (`harness.trainers.grpo.trl_engine`) call it after
each step. Functions that gather values of all processes are here, too.
"""

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
PATIENCE_SECONDS = 7 * 86_400
"""Seconds that processes wait for each other, such as for an evaluation by the first one."""
NUMBERS_FILE = "numbers.json"
"""File of a state with the numbers of its last step."""


def started() -> int:
    """Return the number of processes that a launcher has started; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def processes() -> "PartialState":
    """Return accelerate's state of all processes.

    Raises:
        ModelError: the processes are not connected, so that each would train alone.
    """
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
    """Raise, in every process, the first fault of any; called in each, with None if it has none."""
    faults = [fault for fault in gather([fault]) if fault is not None]
    if faults:
        raise faults[0]


class Session:
    """Follows a training: finds its state, logs its steps, evaluates it, and stops it."""

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
        """Find the state to resume from, and cut the curve there.

        Args:
            run: The training's folder, tasks and options.
            snapshot: Writes the current network into a folder; called in every process.
            report_to: Loggers; see `harness.trainers.loggers`.
            settings: Settings of the training, for W&B.
            on_alarm: Action when an alarm is raised.
            steps_per_round: Number of optimiser steps of a round.
        """
        self.run, self._snapshot, self._steps_per_round = run, snapshot, steps_per_round
        self.alarms, self._on_alarm = Alarms(), on_alarm
        self._stopped_by: AlarmStop | None = None
        self.state = newest_state(run.state) if run.resume else None
        self.done = 0 if self.state is None else step_of(self.state)
        """Number of steps done in `state`."""
        self.saved = self.done
        """Number of steps done in the newest state."""
        if run.main:
            if run.resume and (self.done or run.curve.read()):
                where = f"resumes after step {self.done}" if self.done else "starts again at step 0"
                run.progress.note(f"{run.out}: {where}, the last state that was saved")
            run.curve.cut(self.done)
        self.stopwatch = Stopwatch()
        self._loggers = loggers(report_to, run, self.done, settings)

    def check_state(self) -> None:
        """Raise StoreError, in every process, if the state to resume from is damaged."""
        fault = None
        try:
            if self.state is not None and self.run.main:
                check_files(self.state)
        except StoreError as error:
            fault = error
        raise_together(fault)

    def evaluates(self, step: int) -> bool:
        """Return True if the network is evaluated after this step, the last one of its round.

        It is, if a multiple of `every` lies within the round. A state is saved before.
        """
        run, size = self.run, self._steps_per_round
        if run.evaluate is None or not run.every:
            return False
        before = (step - 1) // size * size  # steps before the round
        return step // run.every > before // run.every

    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluate if it is due after this step; return numbers named `eval/<task>/<metric>`."""
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
        """Evaluate if it is due; log the step's numbers to the curve, the loggers and the terminal.

        Only loggers and the terminal get times and memory, so that equal trainings have equal
        curves. `evaluates` is False within a round, where no state can be saved.
        """
        measured = {**self.stopwatch.take(numbers.get("step_tokens", 0.0)), **memory()}
        numbers = {**numbers, **(self.evaluate(step) if evaluates else {})}
        self.stopwatch.take(0.0)  # the evaluation's time does not count for the next step
        if self.run.main:
            self.run.curve.append(step, numbers)
            for logger in self._loggers:
                logger.log(as_in_trl({**numbers, **measured}), step=step)
        self.run.progress.step(step, {**numbers, **measured})

    def log_table(self, name: str, columns: Mapping[str, Sequence[object]], step: int) -> None:
        """Log a table to the loggers that have tables: W&B."""
        rows = [list(row) for row in zip(*columns.values(), strict=True)]
        for logger in self._loggers:
            if hasattr(logger, "log_table"):
                logger.log_table(name, columns=list(columns), data=rows, step=step)

    def watch(self, step: int, numbers: Mapping[str, float]) -> dict[str, float]:
        """Report new alarms of a step; return 1 under the name of each alarm that holds.

        Only in the first process, which reads the curve of a resumed training; else empty.
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

    def save_numbers(self, state: Path, numbers: Mapping[str, float]) -> None:
        """Write the numbers of a state's last step into it: they are logged after it is saved."""
        (state / NUMBERS_FILE).write_text(json.dumps(dict(numbers)), encoding="utf-8")

    def catch_up(self) -> None:
        """Log the last step of the state to resume from, unless the curve has it already.

        Alarms then see all rows of the curve.
        """
        rows = self.run.curve.read() if self.run.main else []
        path = None if self.state is None else self.state / NUMBERS_FILE
        if path is not None and path.is_file():
            logged = any(row["step"] == self.done for row in rows)
            if not gather([logged])[0]:
                numbers = json.loads(path.read_text(encoding="utf-8"))
                rows.append({"step": self.done, **numbers})
                self.log(self.done, {name: numbers[name] for name in numbers if name != "step"})
        if self._on_alarm != "off":
            for row in rows:
                self.alarms.see(row["step"], row)

    def stopping(self) -> bool:
        """Return True if any process was asked to stop, or an alarm stops the training."""
        return any(gather([self.run.stopping() or self._stopped_by is not None]))

    def stop(self) -> NoReturn:
        """Raise the reason to stop, AlarmStop or KeyboardInterrupt; the state is saved before."""
        raise self._stopped_by or KeyboardInterrupt


def memory() -> dict[str, float]:
    """Return the peak memory of this process in 10^9 bytes: on its GPU; without one, resident."""
    on_gpu = gpu_peak()
    name = "perf/max_memory_allocated_gb" if on_gpu else "perf/max_memory_resident_gb"
    return {name: (on_gpu or memory_peak()) / 1e9}


def all_of(run: TrainingRun, name: str) -> list[float]:
    """Return the finite numbers of a training's curve under this name, in order."""
    numbers = [row[name] for row in run.curve.read() if name in row]
    return [float(number) for number in numbers if number is not None and math.isfinite(number)]


def last(run: TrainingRun, name: str) -> float | None:
    """Return the last number of the curve under this name; None: there is none, or not finite."""
    numbers = [row[name] for row in run.curve.read() if name in row] if run.main else []
    return float(numbers[-1]) if numbers and math.isfinite(numbers[-1]) else None

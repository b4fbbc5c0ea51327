"""Checkpoints of steps in between: the last ones, and the best one, beside their states.

The settings are called as in transformers: `save_total_limit`, `metric_for_best_model`,
`greater_is_better`, `load_best_model_at_end`.
"""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.trainer import EVALUATIONS, TrainingRun
from harness.trainers.session import gather
from harness.trainers.settings import TrainingSettings
from harness.trainers.state import replaced_folder, step_of

FOLDER = "checkpoints"
"""Folder in a training's, with one checkpoint a step: `step-<n>`."""


@dataclass(frozen=True)
class KeptCheckpoints:
    """The checkpoints that a training keeps; nothing is kept with the usual settings."""

    run: TrainingRun
    settings: TrainingSettings

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return self.run.out / FOLDER

    @property
    def is_wanted(self) -> bool:
        """True if checkpoints are kept at all."""
        chosen = self.settings
        return chosen.save_total_limit > 1 or chosen.metric_for_best_model is not None

    def add(self, step: int, export: Callable[[Path], None]) -> None:
        """Keep the network as it is after a step, and drop what is neither recent nor the best.

        Called in every process, after the step was logged.
        """
        if not self.is_wanted:
            return
        if unknown := gather([self._unknown_metric()])[0]:
            raise unknown
        export(self.folder / f"step-{step}")
        if self.run.main:
            kept = self.kept([*self.steps(), step])
            for path in self.folder.glob("step-*"):
                if step_of(path) not in kept:
                    shutil.rmtree(path)

    def catch_up(self, step: int, export: Callable[[Path], None]) -> None:
        """Keep the checkpoint of the state that a training goes on from, if that was not done."""
        if self.is_wanted and not gather([step in self.steps()])[0]:
            self.add(step, export)

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint."""
        return sorted({step_of(path) for path in self.folder.glob("step-*")})

    def kept(self, steps: Sequence[int]) -> set[int]:
        """Return which of these steps are kept: the last ones, and the best one."""
        best = self.best(steps)
        recent = sorted(set(steps))[-self.settings.save_total_limit :]
        return {*recent, *(() if best is None else (best,))}

    def best(self, steps: Sequence[int]) -> int | None:
        """Return the best of these steps by the curve; None: no metric is named, or logged."""
        name = self.settings.metric_for_best_model
        if name is None:
            return None
        sign = 1 if self.settings.is_greater_better else -1
        values = {
            row["step"]: sign * row[name]
            for row in self.run.curve.read()
            if row["step"] in steps and math.isfinite(row.get(name, math.nan))
        }
        return max(values, key=lambda step: (values[step], step), default=None)

    def _unknown_metric(self) -> UsageError | None:
        """Return the error of a metric that no step has logged, unless evaluations may bring it."""
        name = self.settings.metric_for_best_model
        if name is None or name.startswith(f"{EVALUATIONS}/") or not self.run.main:
            return None
        known = sorted({key for row in self.run.curve.read() for key in row} - {"step"})
        if name in known:
            return None
        expected = f"a number of the curve: {', '.join(known)}"
        return UsageError("metric_for_best_model", expected=expected, found=name)

    def finish(self, checkpoint: Path) -> Mapping[str, object]:
        """Put the best checkpoint into the place of the last, if that is wanted; return facts.

        Raises:
            UsageError: the metric was never logged at a step with a checkpoint.
        """
        name = self.settings.metric_for_best_model
        if name is None or not self.run.main:
            return {}
        best = self.best(self.steps())
        if best is None:
            known = sorted({key for row in self.run.curve.read() for key in row} - {"step"})
            raise UsageError(
                f"metric_for_best_model={name}",
                expected=f"one that is logged at the steps of checkpoints: {', '.join(known)}",
                found="no number of it",
                fix="eval/<task>/<metric> is logged where --every and save_steps fall together.",
            )
        if self.settings.load_best_model_at_end:
            with replaced_folder(checkpoint) as partial:
                shutil.copytree(self.folder / f"step-{best}", partial, dirs_exist_ok=True)
        return {"best_step": best, "best_metric": name}

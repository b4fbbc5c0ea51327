"""`KeptCheckpoints`: the last checkpoints of a training and the best, in `checkpoints/step-<n>`.

Settings are those of transformers: `save_total_limit`, `metric_for_best_model`,
`greater_is_better`, `load_best_model_at_end`. The training loop calls `add` after each state.
"""

import math
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.store.atomic import writing
from harness.trainer import EVALUATIONS, TrainingRun
from harness.trainers.network import ADAPTER, checkpoint_facts
from harness.trainers.session import gather, raise_together
from harness.trainers.settings import TrainingSettings
from harness.trainers.state import by_step, replaced_folder

CHANGED_METRIC_FIX = "The same command with another metric_for_best_model continues."
FOLDER = "checkpoints"
"""Folder, in that of a training, with one checkpoint a step: `step-<n>`."""


@dataclass(frozen=True)
class KeptCheckpoints:
    """The checkpoints of steps that a training keeps; with the default settings, none."""

    run: TrainingRun
    settings: TrainingSettings

    @property
    def folder(self) -> Path:
        """The folder of these checkpoints."""
        return self.run.out / FOLDER

    @property
    def is_wanted(self) -> bool:
        """True if checkpoints are kept at all."""
        settings = self.settings
        return settings.save_total_limit > 1 or settings.metric_for_best_model is not None

    def add(self, step: int, export: Callable[[Path], None]) -> None:
        """Write the checkpoint of a step, and drop those that are neither recent nor the best.

        Called in every process, after the step was logged.
        """
        if not self.is_wanted:
            return
        export(self.folder / f"step-{step}")
        if self.run.main:
            self._drop(set(self.steps()) - self.kept([*self.steps(), step]))

    def catch_up(self, step: int, export: Callable[[Path], None]) -> None:
        """Write the checkpoint of the state after `step`, which training resumes, if it is missing.

        Checkpoints of later steps are dropped: these steps are made again.
        """
        if self.run.main:
            self._drop({later for later in self.steps() if later > step})
        if step and self.is_wanted and not gather([step in self.steps()])[0]:
            self.add(step, export)

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint."""
        return sorted(by_step(self.folder))

    def _drop(self, steps: Collection[int]) -> None:
        """Remove the checkpoints of these steps."""
        for step in steps:
            path = self.folder / f"step-{step}"
            with writing(path):
                shutil.rmtree(path)

    def kept(self, steps: Sequence[int]) -> set[int]:
        """Return those of these steps that are kept: the last ones, and the best one."""
        best = self.best(steps)
        recent = sorted(set(steps))[-self.settings.save_total_limit :]
        return {*recent, *(() if best is None else (best,))}

    def best(self, steps: Sequence[int]) -> int | None:
        """Return the best of these steps by the curve, the latest of equal ones.

        None: no metric is named, or none of these steps has logged it. The numbers of a round are
        logged with its first step, and count for all of its steps.
        """
        name, size = self.settings.metric_for_best_model, self.settings.steps_per_round
        if name is None:
            return None
        sign = 1 if self.settings.is_greater_better else -1
        rows = {row["step"]: row for row in self.run.curve.read()}
        values = dict[int, float]()
        for step in rows.keys() & set(steps):
            before = (step - 1) // size * size  # last step before the round
            of_round = [rows.get(earlier, {}) for earlier in range(step, before, -1)]
            logged = [row[name] for row in of_round if name in row]
            if logged and math.isfinite(logged[0]):
                values[step] = sign * logged[0]
        return max(values, key=lambda step: (values[step], step), default=None)

    def check_metric(self) -> None:
        """Raise UsageError, in every process, if the first round has not logged the metric.

        Numbers of evaluations come later (`check_evaluated`). A component of the reward may come
        later, too, if it does not apply to the first samples: this is only noted.
        """
        raise_together(self._unlogged_metric())

    def _unlogged_metric(self) -> UsageError | None:
        """Return the error of `check_metric`, in the first process; None: there is none."""
        name = self.settings.metric_for_best_model
        if name is None or name.startswith(f"{EVALUATIONS}/") or not self.run.main:
            return None
        names = sorted({key for row in self.run.curve.read() for key in row} - {"step"})
        if name in names:
            return None
        if name.startswith("rewards/"):
            logged = ", ".join(key for key in names if key.startswith("rewards/"))
            self.run.progress.note(
                f"the first round has not logged {name} (metric_for_best_model), but {logged}"
            )
            return None
        expected = f"a number of the curve: {', '.join(names)}"
        return UsageError(
            "metric_for_best_model", expected=expected, found=name, fix=CHANGED_METRIC_FIX
        )

    def finish(self, export: Callable[[Path], None]) -> Mapping[str, object]:
        """Write the training's checkpoint: of the last step, or of the best; return facts.

        Called in every process, at the end. An adapter is moved out of the checkpoint, beside it.
        """
        run, name = self.run, self.settings.metric_for_best_model
        best = gather([self.best(self.steps()) if run.main else None])[0]
        if best is None or not self.settings.load_best_model_at_end:
            export(run.checkpoint)
        elif run.main:
            with replaced_folder(run.checkpoint) as partial:
                shutil.copytree(self.folder / f"step-{best}", partial, dirs_exist_ok=True)
        if not run.main:
            return {}
        if (run.checkpoint / ADAPTER).is_dir():
            with writing(run.out / ADAPTER):
                shutil.rmtree(run.out / ADAPTER, ignore_errors=True)
                (run.checkpoint / ADAPTER).rename(run.out / ADAPTER)
        facts: dict[str, object] = {"checkpoint": checkpoint_facts(run.checkpoint)}
        if name is None:
            return facts
        if best is None:
            run.progress.note(
                f"no step with a checkpoint has logged {name} (metric_for_best_model): the last "
                "step's network is the checkpoint"
            )
        return {**facts, "best_step": best, "best_metric": name}


def check_evaluated(run: TrainingRun, settings: TrainingSettings) -> None:
    """Raise UsageError if `metric_for_best_model` is one of evaluations, and they do not log it."""
    name = settings.metric_for_best_model
    if name is None or not name.startswith(f"{EVALUATIONS}/"):
        return
    if run.evaluate is None or not run.every:
        raise UsageError(
            f"metric_for_best_model={name}",
            expected="evaluations while training (--eval-tasks and --every)",
            found="none",
        )
    if run.evaluated and name not in run.evaluated:
        raise UsageError(
            "metric_for_best_model",
            expected=f"one of the numbers that evaluations log: {', '.join(run.evaluated)}",
            found=name,
            fix="Further metrics of a task are logged with --eval-metrics.",
        )

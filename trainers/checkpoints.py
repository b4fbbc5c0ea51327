"""Checkpoints of steps in between: the last ones, and the best one, beside their states.

The settings are called as in transformers: `save_total_limit`, `metric_for_best_model`,
`greater_is_better`, `load_best_model_at_end`.
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
        export(self.folder / f"step-{step}")
        if self.run.main:
            self._drop(set(self.steps()) - self.kept([*self.steps(), step]))

    def catch_up(self, step: int, export: Callable[[Path], None]) -> None:
        """Keep the checkpoint of the state that a training goes on from, if that was not done.

        Those of later steps are dropped: their states were deleted, and the steps are made again.
        """
        if self.run.main:
            self._drop({other for other in self.steps() if other > step})
        if step and self.is_wanted and not gather([step in self.steps()])[0]:
            self.add(step, export)

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint."""
        return sorted(by_step(self.folder))

    def _drop(self, steps: Collection[int]) -> None:
        for step in steps:
            path = self.folder / f"step-{step}"
            with writing(path):
                shutil.rmtree(path)

    def kept(self, steps: Sequence[int]) -> set[int]:
        """Return which of these steps are kept: the last ones, and the best one."""
        best = self.best(steps)
        recent = sorted(set(steps))[-self.settings.save_total_limit :]
        return {*recent, *(() if best is None else (best,))}

    def best(self, steps: Sequence[int]) -> int | None:
        """Return the best of these steps by the curve; None: no metric is named, or logged.

        A round's own numbers are logged with its first step, and count for each step of it.
        """
        name, turns = self.settings.metric_for_best_model, self.settings.steps_per_round
        if name is None:
            return None
        sign = 1 if self.settings.is_greater_better else -1
        rows = {row["step"]: row for row in self.run.curve.read()}
        values = dict[int, float]()
        for step in rows.keys() & set(steps):
            of_round = (rows.get(one, {}) for one in range(step, (step - 1) // turns * turns, -1))
            value = next((row[name] for row in of_round if name in row), math.nan)
            if math.isfinite(value):
                values[step] = sign * value
        return max(values, key=lambda step: (values[step], step), default=None)

    def check_metric(self) -> None:
        """Raise UsageError, in every process, if no step so far has logged the metric.

        Called after the first round; evaluations may bring theirs later (`check_evaluated`), and so
        may samples that a component of the reward applies to: then it is noted.
        """
        raise_together(self._unlogged_metric())

    def _unlogged_metric(self) -> UsageError | None:
        name = self.settings.metric_for_best_model
        if name is None or name.startswith(f"{EVALUATIONS}/") or not self.run.main:
            return None
        known = sorted({key for row in self.run.curve.read() for key in row} - {"step"})
        if name in known:
            return None
        if name.startswith("rewards/"):  # a component need not apply to the first samples
            logged = ", ".join(key for key in known if key.startswith("rewards/"))
            self.run.progress.note(
                f"the first round has not logged {name} (metric_for_best_model), but {logged}"
            )
            return None
        expected = f"a number of the curve: {', '.join(known)}"
        return UsageError("metric_for_best_model", expected=expected, found=name, fix=CHANGED)

    def finish(self, export: Callable[[Path], None]) -> Mapping[str, object]:
        """Write the checkpoint: the network as it is now, or the best step's; return facts.

        Called in every process, at the end. An adapter comes to lie beside the checkpoint.
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


CHANGED = "The same command with another metric_for_best_model goes on."


def check_evaluated(run: TrainingRun, settings: TrainingSettings) -> None:
    """Raise UsageError if evaluations are to say which step is best, and do not log this number."""
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
            expected=f"a number that evaluations log: {', '.join(run.evaluated)}",
            found=name,
            fix="Further metrics of a task are logged with --eval-metrics.",
        )

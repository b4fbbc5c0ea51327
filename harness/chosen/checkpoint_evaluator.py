"""Evaluation of a training's checkpoints, by the model that loads them."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.chosen import checkpoints
from harness.errors import Unavailable, UnsupportedAnswerForm, UsageError
from harness.judge import Judge
from harness.run.contamination import (
    Contamination,
    TrainedSample,
    measure_contamination,
    refuse_contamination,
    write_trainings,
)
from harness.run.evaluate import evaluate
from harness.run.judging import bind_judge
from harness.run.options import NullProgress, Options, Progress, TitledProgress
from harness.run.workers import build_model
from harness.spec import Spec, slug
from harness.summary import public
from harness.task import Task
from harness.trainer import EVALUATIONS, Trainer


@dataclass(frozen=True)
class CheckpointEvaluator:
    """Evaluation of checkpoints during and after a training."""

    tasks: list[tuple[Spec, Task]]
    model: Spec | None
    trainer: Trainer
    out: Path
    seed: int
    data_root: str
    judge: Judge | None = None
    """Judge of free answers, for tasks that need one."""
    evaluated: Spec | None = None
    """SPEC of the model that evaluates the checkpoint, which it names as `{checkpoint}`."""
    further: tuple[str, ...] = ()
    """Names of the metrics beside the headline that the curve gets."""
    aside: Progress = field(default_factory=NullProgress)
    """Progress of the evaluations during the training."""

    def spec(self, checkpoint: Path) -> Spec:
        """Return the SPEC that loads a checkpoint; raise UsageError if none takes one.

        It is that of `--eval-model`, of the training's start, or the trainer's default.
        """
        if self.evaluated is not None:
            return checkpoints.fill_checkpoint(self.evaluated, str(checkpoint))
        makes = self.trainer.makes
        spec = self.model or (None if makes is None else Spec(makes))
        if spec is None:
            raise UsageError(
                f"--eval-tasks after {self.trainer.name}",
                expected="a model that loads its checkpoints",
                found="none",
                fix="Name it: --model SPEC, --eval-model 'NAME(checkpoint={checkpoint})', or as "
                "`makes` in the trainer's class.",
            )
        return checkpoints.with_checkpoint(spec, checkpoint)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of what `while_training` returns."""
        return tuple(
            f"{EVALUATIONS}/{spec}/{metric}"
            for spec, task in self.tasks
            for metric in dict.fromkeys((task.protocol.headline, *self.further))
        )

    def while_training(self, folder: Path, step: int) -> dict[str, float]:
        """Return numbers of a checkpoint as `eval/<task>/<metric>`, and remove its folder."""
        del step
        numbers = {}
        try:
            evaluated = self._evaluate(folder, folder / EVALUATIONS, self.aside)
            for name, results in evaluated.items():
                for metric in (results["headline"], *self.further):
                    value = results["metrics"].get(metric)
                    if value is not None:
                        numbers[f"{EVALUATIONS}/{name}/{metric}"] = float(value)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return numbers

    def after_training(
        self, progress: Progress, overlaps: Mapping[str, Contamination]
    ) -> dict[str, dict[str, object]]:
        """Evaluate the finished checkpoint and keep its run folders; return the results."""
        results = self._evaluate(self.out, self.out / EVALUATIONS, progress)
        for name, overlap in overlaps.items():
            write_trainings(self.out / EVALUATIONS / slug(name), overlap)
        return results

    def overlaps(self, rows: Sequence[TrainedSample]) -> dict[str, Contamination]:
        """Return the overlap of each task with these training samples."""
        return {str(spec): measure_contamination(rows, task) for spec, task in self.tasks}

    def refuse(self, rows: Sequence[TrainedSample]) -> None:
        """Raise UsageError if some of a task would be trained on."""
        refuse_contamination(self.overlaps(rows))

    def _evaluate(
        self, checkpoint: Path, runs: Path, progress: Progress
    ) -> dict[str, dict[str, Any]]:
        if not self.tasks:
            return {}
        spec = self.spec(checkpoint)
        model = build_model(spec, self.seed)
        options = Options(seed=self.seed, data_root=self.data_root)
        shown = {}
        for task_spec, task in self.tasks:
            folder = runs / slug(str(task_spec))
            try:
                run = evaluate(
                    bind_judge(task, self.judge, folder),
                    model,
                    folder,
                    options,
                    task_spec=str(task_spec),
                    model_spec=str(spec),
                    progress=TitledProgress(progress, f"{task_spec}, {spec}"),
                )
            except (UnsupportedAnswerForm, Unavailable) as error:  # the training goes on
                progress.note(str(error))
                continue
            shown[str(task_spec)] = public(run.results)
        return shown

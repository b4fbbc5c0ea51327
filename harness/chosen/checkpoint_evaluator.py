"""Evaluation of a training's checkpoints on `--eval-tasks`, during and after the training.

`harness train` makes a `CheckpointEvaluator`; the trainer calls `while_training` at its steps, and
the command `after_training` at the end.
"""

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
    measure_contamination,
    refuse_contamination,
    write_contamination_and_origins,
)
from harness.run.evaluate import evaluate
from harness.run.judging import bind_judge
from harness.run.options import NullProgress, Options, Progress, TitledProgress
from harness.run.training_record import TrainedSample
from harness.run.workers import build_model
from harness.spec import Spec, slug
from harness.summary import public
from harness.task import Task
from harness.trainer import EVALUATIONS, Trainer


@dataclass(frozen=True)
class CheckpointEvaluator:
    """Evaluates checkpoints of one training."""

    tasks: list[tuple[Spec, Task]]
    model: Spec | None
    """SPEC of the model that the training starts from; None: it trains from scratch."""
    trainer: Trainer
    out: Path
    """The training's folder, which holds the finished checkpoint."""
    seed: int
    data_root: str
    judge: Judge | None = None
    """Judge of free answers, for tasks that need one."""
    evaluated: Spec | None = None
    """SPEC of `--eval-model`, with `{checkpoint}` in place of the checkpoint."""
    extra_metrics: tuple[str, ...] = ()
    """Names of metrics beside the headline for the training's curve."""
    aside: Progress = field(default_factory=NullProgress)
    """Progress of the evaluations during the training."""

    def spec(self, checkpoint: Path) -> Spec:
        """Return the SPEC of a model that loads a checkpoint.

        It is `--eval-model`, else the model that the training starts from, else the trainer's
        default.

        Raises:
            UsageError: there is no such model, or it takes no checkpoint.
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
        """The names of the numbers that `while_training` returns."""
        return tuple(
            f"{EVALUATIONS}/{spec}/{metric}"
            for spec, task in self.tasks
            for metric in dict.fromkeys((task.protocol.headline, *self.extra_metrics))
        )

    def while_training(self, folder: Path, step: int) -> dict[str, float]:
        """Evaluate a checkpoint, remove its folder, and return numbers by `eval/<task>/<metric>`.

        A metric without a value is left out.
        """
        del step
        numbers = {}
        try:
            evaluated = self._evaluate(folder, folder / EVALUATIONS, self.aside)
            for name, results in evaluated.items():
                for metric in (results["headline"], *self.extra_metrics):
                    value = results["metrics"].get(metric)
                    if value is not None:
                        numbers[f"{EVALUATIONS}/{name}/{metric}"] = float(value)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return numbers

    def after_training(
        self, progress: Progress, overlaps: Mapping[str, Contamination]
    ) -> dict[str, dict[str, object]]:
        """Evaluate the finished checkpoint, keep its runs below `out`; return results by task.

        `overlaps`, by task, are written into the run folders.
        """
        results = self._evaluate(self.out, self.out / EVALUATIONS, progress)
        for name, overlap in overlaps.items():
            write_contamination_and_origins(self.out / EVALUATIONS / slug(name), overlap)
        return results

    def overlaps(self, rows: Sequence[TrainedSample]) -> dict[str, Contamination]:
        """Return the overlap of each task with these training samples."""
        return {str(spec): measure_contamination(rows, task) for spec, task in self.tasks}

    def refuse(self, rows: Sequence[TrainedSample]) -> None:
        """Raise UsageError if any of these training samples is a sample of a task."""
        refuse_contamination(self.overlaps(rows))

    def _evaluate(
        self, checkpoint: Path, runs: Path, progress: Progress
    ) -> dict[str, dict[str, Any]]:
        """Return the public results by task; a task that cannot be evaluated is noted, left out."""
        if not self.tasks:
            return {}
        spec = self.spec(checkpoint)
        model = build_model(spec, self.seed)
        options = Options(seed=self.seed, data_root=self.data_root)
        results = {}
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
            results[str(task_spec)] = public(run.results)
        return results

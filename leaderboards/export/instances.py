"""The samples of a run with their responses and scores, for exported logs that hold texts."""

from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.leaderboards.differences.scoring import samples_by_unit, task_for
from harness.leaderboards.images import answer_words
from harness.leaderboards.runs import metrics_for
from harness.leaderboards.unit_values import unit_value
from harness.record import Run
from harness.types import Prediction, Sample


@dataclass(frozen=True, slots=True)
class Instance:
    """One sample of a run, with the prediction and its score."""

    sample: Sample
    prediction: Prediction
    score: float | None
    """The headline over the sample's unit; None if it has none, as metrics of a corpus."""

    @property
    def question(self) -> str:
        """The benchmark's question."""
        return self.sample.query.text

    @property
    def ground_truth(self) -> str:
        """The right answer as text; empty for boxes, points and masks, or if it is not known."""
        target = self.sample.target
        return "" if target is None else answer_words(target.answer)

    @property
    def error(self) -> str:
        """The failure of a sample without a response; empty if there is none."""
        failure = self.prediction.failure
        return "" if self.prediction.responses or failure is None else failure.message or "failed"


def instances(run: Run, data_root: Path | None = None) -> list[Instance]:
    """Return the samples of a run, in the task's order.

    Raises:
        UsageError: the run has no responses as text.
        HarnessError: the data is missing or has changed.
    """
    all_instances = scored_samples(run, data_root)
    if not any(instance.prediction.responses for instance in all_instances):
        raise UsageError(
            f"run {run.folder}",
            expected="a model that responds in words, which is all that such a log holds",
            found="no response",
            fix="`--to parquet` has its scores, `harness publish` its answers.",
        )
    return all_instances


def scored_samples(run: Run, data_root: Path | None = None) -> list[Instance]:
    """Return the samples of a run, in the task's order, whatever their answers are.

    Raises:
        HarnessError: the data is not there, or is other data.
    """
    units = list(run.units())
    metrics = metrics_for(run, units, name=run.results["headline"], data_root=data_root)
    task = task_for(run, data_root)
    return [
        Instance(sample, run.prediction(sample.id), unit_value(metrics, unit))
        for unit, samples in zip(units, samples_by_unit(task, run), strict=True)
        for sample in samples
    ]

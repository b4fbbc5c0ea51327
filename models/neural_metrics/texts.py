"""Define what plugins of free-text metrics return, and which two texts of a sample they compare."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.scores import Metric, Scores
from harness.types import Prediction, Sample


@dataclass(frozen=True, slots=True)
class TextMetric:
    """Result of a metric plugin for `--metrics`; it has the fields of `harness.task.ExtraMetric`.

    That class itself belongs to tasks, which models must not import.
    """

    metric: Metric
    score: Callable[[Sequence[Sample], Sequence[Prediction]], Scores]
    """Returns statistics of samples and the predictions for them."""


def true_texts(sample: Sample) -> tuple[str, ...]:
    """Return the correct texts of a sample: its references, or else the text of its true answer."""
    if sample.target is None:
        return ()
    text = sample.target.answer.text
    return sample.target.references or (() if text is None else (text,))


def candidate_text(prediction: Prediction) -> str:
    """Return the text of the predicted answer; "" if there is none."""
    return (prediction.answer.text if prediction.answer else None) or ""

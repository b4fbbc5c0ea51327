"""Values that metrics of free text share: the metric itself, the true texts, the answer's text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.scores import Metric, Scores
from harness.types import Prediction, Sample


@dataclass(frozen=True, slots=True)
class TextMetric:
    """Value for `--metrics`: the fields of `harness.task.ExtraMetric`.

    That class belongs to tasks, which nothing in this room may know.
    """

    metric: Metric
    score: Callable[[Sequence[Sample], Sequence[Prediction]], Scores]


def true_texts(sample: Sample) -> tuple[str, ...]:
    """The texts that would be right: the references, or else the text of the true answer."""
    if sample.target is None:
        return ()
    text = sample.target.answer.text
    return sample.target.references or (() if text is None else (text,))


def candidate_text(prediction: Prediction) -> str:
    """Return the text of an answer, "" where there is none."""
    return (prediction.answer.text if prediction.answer else None) or ""

"""What answers cost: tokens a sample, from the usage that predictions carry."""

from collections.abc import Sequence

from harness.scores import Mean, Metric, Scores
from harness.task import ExtraMetric
from harness.types import Prediction, Sample


def reasoning_tokens() -> ExtraMetric:
    """Mean number of tokens between the thinking tags, failed samples included (DR2Seg, App. C)."""
    return _usage("reasoning tokens", "reasoning_tokens", "mean tokens of reasoning a sample")


def completion_tokens() -> ExtraMetric:
    """Mean number of generated tokens, failed samples included."""
    return _usage("completion tokens", "completion_tokens", "mean generated tokens a sample")


def _usage(name: str, field: str, about: str) -> ExtraMetric:
    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        spent = sum(getattr(prediction.usage, field) for prediction in predictions)
        return {name: Mean(spent / len(unit), weight=len(unit))}

    return ExtraMetric(Metric(name, better="lower", about=about), score)

"""Metric plugins for the cost of answers: tokens, characters of reasoning and frames a sample.

They read `Prediction.usage` and responses. Times are not metrics, as they differ between equal
runs; a run keeps them in `timing.json`.
"""

from collections.abc import Callable, Sequence

from harness.scores import Mean, Metric, Scores
from harness.task import CostMetric, ExtraMetric
from harness.types import Prediction, Sample


def reasoning_tokens() -> ExtraMetric:
    """Mean number of tokens between the thinking tags, failed samples included (DR2Seg, App. C)."""
    return _mean(
        "reasoning tokens",
        lambda prediction: prediction.usage.reasoning_tokens,
        about="mean tokens of reasoning a sample",
    )


def completion_tokens() -> ExtraMetric:
    """Mean number of generated tokens, failed samples included."""
    return _mean(
        "completion tokens",
        lambda prediction: prediction.usage.completion_tokens,
        about="mean generated tokens a sample",
    )


def frames() -> ExtraMetric:
    """Mean number of frames that the reasoner saw, failed samples included."""
    return _mean(
        "frames", lambda prediction: prediction.usage.frames, about="mean frames seen a sample"
    )


def reasoning_characters(*, tag: str = "think") -> ExtraMetric:
    """Mean number of characters between thinking tags, failed samples included.

    Unlike the number of tokens it does not depend on a tokenizer, so that models can be compared,
    and it can be computed from stored responses. See `reasoning_length`.

    Args:
        tag: The name of the tags.
    """
    return _mean(
        "reasoning characters",
        lambda prediction: sum(
            reasoning_length(response, tag=tag) for response in prediction.responses
        ),
        about=f"mean characters between <{tag}> and </{tag}> a sample",
    )


def tokens_per_correct() -> CostMetric:
    """Generated tokens for each right answer, by the protocol's headline metric.

    It is the number of tokens of all samples, wrong and failed ones too, over the sum of the
    headline's values, and has no value if that sum is 0. The headline must be a mean of values from
    0 to 1.
    """

    def cost(predictions: Sequence[Prediction]) -> float:
        return sum(prediction.usage.completion_tokens for prediction in predictions)

    about = "generated tokens of all samples over how many are right"
    return CostMetric(Metric("tokens per correct answer", better="lower", about=about), cost)


def reasoning_length(response: str, *, tag: str = "think") -> int:
    """Return the number of characters of reasoning in a response: of its first tagged text.

    Blanks around the text do not count. Without a closing tag the reasoning ends with the response
    (which was cut off); without an opening tag it begins with the response (the prompt ended with
    that tag). Without either tag it is empty.

    >>> reasoning_length("<think> a red car </think><answer>1</answer>")
    9
    >>> reasoning_length("<think>so far"), reasoning_length("so far</think>4")
    (6, 6)
    >>> reasoning_length("the answer is 4")
    0
    """
    before, opening, after = response.partition(f"<{tag}>")
    if not opening:
        thought, closing, _ = before.partition(f"</{tag}>")
        return len(thought.strip()) if closing else 0
    return len(after.partition(f"</{tag}>")[0].strip())


def _mean(name: str, spent: Callable[[Prediction], float], *, about: str) -> ExtraMetric:
    """Return a metric, the mean over samples of what `spent` returns; less is better."""

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        return {name: Mean(sum(map(spent, predictions)) / len(unit), weight=len(unit))}

    return ExtraMetric(Metric(name, better="lower", about=about), score)

"""Score questions for a number, for VSI-Bench and STI-Bench, which also have other questions."""

from collections.abc import Mapping, Sequence

from harness.errors import UsageError
from harness.metrics.numeric import mean_relative_accuracy, relative_accuracy
from harness.scores import Mean, Scores
from harness.task import Protocol, choose, single_answer
from harness.types import Prediction, Sample


def scoring_of_form(
    task: str, protocols: Mapping[str, Protocol], form: str, protocol: str
) -> Protocol:
    """Return the requested protocol, after a check that it scores the task's form of questions.

    For `form=numeric`, the default `NAME/official` becomes `NAME/numeric`.

    Args:
        task: Name of the task, for messages.
        protocols: Protocols of the benchmark.
        form: Value of the task's `form=`: `numeric` or another.
        protocol: Name of the requested protocol.

    Raises:
        UsageError: there is no such protocol, or it scores another form.
    """
    prefix, _, variant = protocol.partition("/")
    if form == "numeric" and variant == "official" and protocol in protocols:
        protocol = f"{prefix}/numeric"
    scoring = choose("protocol", protocols, protocol)
    if (form == "numeric") != protocol.endswith("/numeric"):
        raise UsageError(
            f"{task}(form={form})",
            found=f"protocol={protocol}",
            expected=f"form=numeric exactly with protocol={prefix}/numeric",
        )
    return scoring


def score_numeric(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return MRA and relative accuracy of the number that the model's parser read, or 0."""
    _, target, prediction = single_answer(unit, predictions)
    ground_truth = target.answer.number
    assert ground_truth is not None, "numeric samples have a number"
    predicted = None if prediction.answer is None else prediction.answer.number
    return {
        "MRA": Mean(mean_relative_accuracy(predicted, ground_truth)),
        "relative accuracy": Mean(relative_accuracy(predicted, ground_truth)),
    }

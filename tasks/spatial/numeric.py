"""Questions for a number alone, in benchmarks of space that have options as well."""

from collections.abc import Mapping, Sequence

from harness.errors import UsageError
from harness.metrics.numeric import mean_relative_accuracy, relative_accuracy
from harness.scores import Mean, Scores
from harness.task import Protocol, choose, single_answer
from harness.types import Prediction, Sample


def scoring_of_form(
    task: str, protocols: Mapping[str, Protocol], form: str, protocol: str
) -> Protocol:
    """The protocol of a form of questions; `NAME/numeric` instead of `NAME/official` for numbers.

    Args:
        task: The task's name, for messages.
        protocols: The benchmark's protocols.
        form: `numeric`, or another.
        protocol: The name of one of the protocols.

    Raises:
        UsageError: there is no such protocol, or it scores another form.
    """
    prefix, _, kind = protocol.partition("/")
    if form == "numeric" and kind == "official" and protocol in protocols:
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
    """MRA and relative accuracy of the number that the model's own parser read; none scores 0."""
    _, target, prediction = single_answer(unit, predictions)
    ground_truth = target.answer.number
    assert ground_truth is not None, "numeric samples have a number"
    predicted = None if prediction.answer is None else prediction.answer.number
    return {
        "MRA": Mean(mean_relative_accuracy(predicted, ground_truth)),
        "relative accuracy": Mean(relative_accuracy(predicted, ground_truth)),
    }

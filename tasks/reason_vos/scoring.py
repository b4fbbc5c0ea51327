"""ReasonVOS' J and F, in the frames that have an annotation."""

from collections.abc import Sequence

from harness.scores import Scores
from harness.task import official_and_strict, single_answer
from harness.tasks.rvos import scoring as rvos
from harness.types import Prediction, Sample


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """J and F of one expression over its annotated frames.

    An expression without a prediction scores 0 and 0 with `strict`; `eval_reason_vos.py` (146f2bc)
    leaves it out.
    """
    _, target, prediction = single_answer(unit, predictions)
    if prediction.answer is None and not strict:
        return {}
    return rvos.score(unit, predictions, frames=target.extra["counted"])


PROTOCOLS = official_and_strict(
    "reasonvos",
    score,
    metrics=rvos.METRICS,
    headline="J&F",
    official="VideoLISA's eval_reason_vos.py: what has no prediction counts nowhere",
    strict="what has no prediction scores 0",
)

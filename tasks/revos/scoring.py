"""The protocols of ReVOS: J, F, A and R (see ABOUT) for each type of expression, and means of two.

The two protocols differ in the value of predicted pixels, 255 or 1, on which A and R depend.
"""

from collections.abc import Sequence
from functools import partial

from harness.metrics.revos import Form, in_percent, revos_scores
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol
from harness.tasks.rvos.scoring import ground_truth_of, half_sum, predicted_masks
from harness.types import Prediction, Sample

TYPES = ("referring", "reasoning", "hallucination")
"""Types of expressions, by their `type_id`."""

AVERAGED_TYPES = TYPES[:2]
"""Types over which the official script averages."""
NAMES = ("J", "F", "A", "R")
ABOUT = {
    "J": "region similarity",
    "F": "boundary measure",
    "A": "share of right pixels",
    "R": "robustness: 1 minus wrong pixels divided by the video's foreground",
}


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, form: Form) -> Scores:
    """Return J, F, A and R of one expression, each from 0 to 1, under the names of its type.

    They are those of tools/eval_revos.py of VISA (ec158fd) for the form `visa255`, and of Sa2VA
    (9832e1a) for `binary`, with percentages rounded to two decimals. A failure scores 0 in all
    four, as unreadable masks do in the official scripts; "no target" counts as empty masks.
    """
    (sample,), (prediction,) = unit, predictions
    type_name = sample.categories["type"]
    if prediction.answer is None:
        return {f"{name} {type_name}": Mean(0.0) for name in NAMES}
    assert sample.target is not None
    predicted = predicted_masks(prediction.answer, ground_truth_of(sample))
    extra = sample.target.extra
    values = revos_scores(extra["objects"], predicted, extra["foreground"], form=form)
    return {
        f"{name} {type_name}": Mean(in_percent(value) / 100)
        for name, value in zip(NAMES, values, strict=True)
    }


def metrics(
    names: Sequence[str] = NAMES,
    types: Sequence[str] = TYPES,
    *,
    counted: Sequence[str] = AVERAGED_TYPES,
) -> tuple[Metric, ...]:
    """Return the metrics: each name for each type, its mean over the types `counted`, and J&F."""
    means = [
        Metric(
            f"{name} {type_name}",
            about=f"{ABOUT[name]}, mean over {type_name} expressions"
            + ("" if type_name in counted else "; the official script lists them one by one only"),
        )
        for type_name in types
        for name in names
    ]
    type_means = [
        Metric(
            name,
            inputs=tuple(f"{name} {type_name}" for type_name in counted),
            derived=half_sum,
            about=f"{ABOUT[name]}, mean of the two types' means",
        )
        for name in names
    ]
    joined = [
        Metric(
            f"J&F{end}",
            inputs=(f"J{end}", f"F{end}"),
            derived=half_sum,
            about=f"mean of J and F{end}",
        )
        for end in (*(f" {type_name}" for type_name in counted), "")
    ]
    return (*means, *type_means, *joined)


def _protocol(form: Form, about: str) -> Protocol:
    """Return the protocol of a form; see `score`."""
    scored = partial(score, form=form)
    return Protocol(
        name=f"revos/{form}",
        score=scored,
        metrics=metrics(),
        headline="J&F",
        ceiling=Ceiling(value=1.0),
        about=about,
    )


PROTOCOLS = {
    "revos/visa255": _protocol(
        "visa255",
        "VISA's tools/eval_revos.py: predicted pixels have the value 255, which makes A "
        "and R wrong (papers print these)",
    ),
    "revos/binary": _protocol(
        "binary", "Sa2VA's eval_revos.py: predicted pixels are 1, A and R on their intended scale"
    ),
}

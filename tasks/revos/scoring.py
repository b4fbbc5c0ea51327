"""ReVOS' scores: J, F, A and R of each type of expression, and the means of two types."""

from collections.abc import Sequence
from functools import partial

from harness.metrics.revos import Form, in_percent, revos_scores
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol
from harness.tasks.rvos.scoring import ground_truth_of, half_sum, predicted_masks
from harness.types import Prediction, Sample

TYPES = ("referring", "reasoning", "hallucination")
"""Types of expressions, by their `type_id`."""

COUNTED = TYPES[:2]
NAMES = ("J", "F", "A", "R")
ABOUT = {
    "J": "region similarity",
    "F": "boundary measure",
    "A": "share of right pixels",
    "R": "robustness: 1 less wrong pixels over the video's foreground",
}


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, form: Form) -> Scores:
    """J, F, A and R of one expression, under the names of its type.

    As tools/eval_revos.py of VISA (ec158fd) for the form `visa255`, and of Sa2VA (9832e1a) for
    `binary`: in percent, rounded to two places, here again divided by 100. A failure scores 0 four
    times, as the official scripts score what they cannot read; "no target" is empty masks.
    """
    (sample,), (prediction,) = unit, predictions
    kind = sample.categories["type"]
    if prediction.answer is None:
        return {f"{name} {kind}": Mean(0.0) for name in NAMES}
    assert sample.target is not None
    predicted = predicted_masks(prediction.answer, ground_truth_of(sample))
    extra = sample.target.extra
    values = revos_scores(extra["objects"], predicted, extra["foreground"], form=form)
    return {
        f"{name} {kind}": Mean(in_percent(value) / 100)
        for name, value in zip(NAMES, values, strict=True)
    }


def metrics(
    names: Sequence[str] = NAMES, types: Sequence[str] = TYPES, *, counted: Sequence[str] = COUNTED
) -> tuple[Metric, ...]:
    """Each number of each type, its mean over the two types that are counted, and J&F of all."""
    means = [
        Metric(
            f"{name} {kind}",
            about=f"{ABOUT[name]}, mean over {kind} expressions"
            + ("" if kind in counted else "; the official script lists them one by one only"),
        )
        for kind in types
        for name in names
    ]
    both = [
        Metric(
            name,
            inputs=tuple(f"{name} {kind}" for kind in counted),
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
        for end in (*(f" {kind}" for kind in counted), "")
    ]
    return (*means, *both, *joined)


def _protocol(form: Form, about: str) -> Protocol:
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
        "VISA's tools/eval_revos.py: predicted pixels are the byte 255, which spoils A "
        "and R (published ones are these)",
    ),
    "revos/binary": _protocol(
        "binary", "Sa2VA's eval_revos.py: predicted pixels are 1, A and R on their intended scale"
    ),
}

"""The protocols of SA-Co: cgF1, made of pmF1 and IL_MCC.

pmF1 is the F1 of a phrase's instances, over phrases that are in the image. IL_MCC is the Matthews
correlation between "an instance is predicted" and "the phrase is in the image". cgF1 is their
product.
"""

from collections.abc import Callable, Iterable, Sequence

from harness.masks import Rle
from harness.metrics.cgf1 import best_annotator, found_instances, image_mcc, positive_f1, track_ious
from harness.scores import Corpus, Metric, Scores
from harness.task import Ceiling, Protocol, official_and_strict, single_answer
from harness.types import Prediction, Sample

MIN_SCORE = 0.5  # objects with a lower score do not count as predicted
Track = tuple[Rle, ...]
"""Masks of an object, one per frame."""


def predicted_instances(prediction: Prediction, *, above: bool = False) -> tuple[Track, ...]:
    """Return the predicted objects with a score of at least MIN_SCORE (if `above`: above it).

    Without scores all objects count. An answer without instances is one object, if its mask is not
    empty; a failure has no objects.
    """
    answer = prediction.answer
    if answer is None or answer.masks is None:
        return ()
    if answer.instances is None:  # scores, if there are any, are then of boxes
        return (answer.masks,) if any(mask.area for mask in answer.masks) else ()
    instances, scores = answer.instances, answer.box_scores or ()
    if len(scores) != len(instances):
        return instances
    pairs = zip(instances, scores, strict=True)
    return tuple(
        instance
        for instance, score in pairs
        if score > MIN_SCORE or (score == MIN_SCORE and not above)
    )


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """Return a sample's counts for pmF1 and IL_MCC, against the annotator with the best match.

    A failure counts as an answer without objects; with `strict` it is wrong in any case, so for a
    phrase without instances it becomes a false positive.
    """
    _, target, prediction = single_answer(unit, predictions)
    predicted = predicted_instances(prediction)
    annotators: Sequence[Sequence[Track]] = target.extra["annotators"]
    best = best_annotator([found_instances(track_ious(predicted, true)) for true in annotators])
    if strict and prediction.answer is None and best["cell"] == "TN":
        best = {**best, "cell": "FP", "predicted": 1}
    return {"pmF1": Corpus((best,)), "IL_MCC": Corpus((best,))}


def has_both(samples: Iterable[Sample]) -> float:
    """Return the highest possible cgF1: 0 if all phrases are in their images, or none is; else 1.

    In the former case IL_MCC is 0 whatever is predicted.
    """
    return float(len({sample.categories["there"] for sample in samples}) == 2)


METRICS = (
    Metric("pmF1", corpus=positive_f1, about="F1 of instances of phrases that are there"),
    Metric("IL_MCC", corpus=image_mcc, about="correlation of seeing that a phrase is there"),
    Metric(
        "cgF1", inputs=("pmF1", "IL_MCC"), derived=lambda f1, mcc: f1 * mcc, about="pmF1 × IL_MCC"
    ),
)


def protocols(
    name: str, score: Callable[..., Scores], metrics: Sequence[Metric], *, about: str
) -> dict[str, Protocol]:
    """Return the protocols `NAME/official` and `NAME/strict`, whose headline is cgF1."""
    return official_and_strict(
        name,
        score,
        metrics=tuple(metrics),
        headline="cgF1",
        ceiling=Ceiling(value=has_both, tolerance=2e-4, why="SAM 3 adds 1e-4 to its quotients"),
        beside=tuple(metric.name for metric in metrics if metric.name != "cgF1"),
        official=about,
        strict="the same; a failure is wrong also where nothing is there",
    )


PROTOCOLS = protocols(
    "saco",
    score,
    METRICS,
    about="SAM 3's cgf1_eval.py with masks: IoU 0.5 to 0.95, the best of the annotators",
)

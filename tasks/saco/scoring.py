"""Instances of a phrase that are found, and whether it was seen that it is there, in SA-Co."""

from collections.abc import Callable, Iterable, Sequence

from harness.masks import Rle
from harness.metrics.cgf1 import (
    best_annotator,
    found_instances,
    image_mcc,
    positive_f1,
    track_ious,
)
from harness.scores import Corpus, Metric, Scores
from harness.task import Ceiling, Protocol, official_and_strict, single_answer
from harness.types import Prediction, Sample

THRESHOLD = 0.5  # of scores: what is below was not predicted
Track = tuple[Rle, ...]


def predicted_instances(prediction: Prediction, *, above: bool = False) -> tuple[Track, ...]:
    """Return the predicted objects with a score of at least 0.5 (with `above`, of more than 0.5).

    Without scores all objects count. An answer that does not tell objects apart is one object; a
    failure has no objects.
    """
    answer = prediction.answer
    if answer is None or answer.masks is None:
        return ()
    alone = (answer.masks,) if any(mask.area for mask in answer.masks) else ()
    if answer.instances is None:  # scores are then of boxes
        return alone
    instances, scores = answer.instances, answer.box_scores or ()
    if len(scores) != len(instances):
        return instances
    pairs = zip(instances, scores, strict=True)
    return tuple(
        instance
        for instance, score in pairs
        if score > THRESHOLD or (score == THRESHOLD and not above)
    )


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """The best of the annotators' counts. A failure is nothing predicted; with `strict`, wrong."""
    _, target, prediction = single_answer(unit, predictions)
    predicted = predicted_instances(prediction)
    annotators: Sequence[Sequence[Track]] = target.extra["annotators"]
    best = best_annotator([found_instances(track_ious(predicted, true)) for true in annotators])
    if strict and prediction.answer is None and best["cell"] == "TN":
        best = {**best, "cell": "FP", "predicted": 1}
    return {"pmF1": Corpus((best,)), "IL_MCC": Corpus((best,))}


def has_both(samples: Iterable[Sample]) -> float:
    """The ceiling: 0 where every phrase is there, or none is, as nothing correlates with it."""
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
    """`NAME/official` and `NAME/strict`, whose headline is cgF1."""
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

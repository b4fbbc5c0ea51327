"""The protocols of `coco_detection`: COCO's AP of boxes.

The boxes' confidences are by VisionReasoner's rule (`by_area`) or the model's own (`as_predicted`).
"""

from collections.abc import Callable, Mapping, Sequence

from harness.metrics.detection import Library, area_score, average_precision, detection_item
from harness.scores import Corpus, Metric, Scores
from harness.task import Ceiling, Protocol, ScoreUnit
from harness.types import Box, Prediction, Sample

Confidence = Callable[[Sample, Prediction, Sequence[Box]], Sequence[float]]
"""Function that returns the confidence of each predicted box."""
STATISTICS = ("AP", "AP50", "AP75")


def by_area(sample: Sample, prediction: Prediction, boxes: Sequence[Box]) -> Sequence[float]:
    """Return VisionReasoner's confidences, which depend on the share of the image a box covers."""
    assert sample.target is not None
    has_box = bool(sample.target.extra["asked"])
    return [area_score(box, sample.query.size, has_ground_truth=has_box) for box in boxes]


def as_predicted(sample: Sample, prediction: Prediction, boxes: Sequence[Box]) -> Sequence[float]:
    """Return the model's own confidences; 1 for each box if it gave none."""
    assert prediction.answer is not None
    return prediction.answer.box_scores or (1.0,) * len(boxes)


def scorer(names: Mapping[str, str], confidence: Confidence) -> ScoreUnit:
    """Return a scorer that gives a question's detection item under each name of `names`.

    AP is computed from the items of all questions. `names` maps a metric to COCO's statistic.
    """

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        """Return the same item for each metric."""
        (sample,), (prediction,) = unit, predictions
        assert sample.target is not None and sample.target.answer.boxes is not None
        extra = sample.target.extra
        predicted = (prediction.answer and prediction.answer.boxes) or ()
        item = detection_item(
            extra["image"],
            extra["category"],
            ground_truth=sample.target.answer.boxes,
            predicted=predicted,
            scores=confidence(sample, prediction, predicted) if predicted else (),
            crowd=extra["crowd"],
            areas=extra["areas"],
            sizes=extra.get("sizes"),
        )
        return {name: Corpus((item,)) for name in names}

    return score


def _protocol(
    name: str, suffix: str, library: Library, confidence: Confidence, about: str
) -> Protocol:
    """Return a protocol of STATISTICS, which are named `AP`, or with a suffix `coco_ap<suffix>`."""
    names = {f"{statistic}{suffix}": statistic for statistic in STATISTICS}
    if suffix:
        names = {f"coco_{name.lower()}": statistic for name, statistic in names.items()}
    return Protocol(
        name=name,
        score=scorer(names, confidence),
        metrics=tuple(
            Metric(
                name,
                corpus=average_precision(statistic, library=library),
                about=f"COCO's {statistic} of boxes over all categories that are asked for",
            )
            for name, statistic in names.items()
        ),
        headline=next(iter(names)),
        ceiling=Ceiling(
            value=1.0, tolerance=1e-9, why="COCO adds a rounding unit to each denominator"
        ),
        about=about,
    )


def protocols(library: Library) -> dict[str, Protocol]:
    """Return both protocols by name; `library` computes AP."""
    return {
        "coco/visionreasoner": _protocol(
            "coco/visionreasoner",
            "_area_score",
            library,
            by_area,
            "VisionReasoner's evaluation: a box's score is the part of the image it covers",
        ),
        "coco/scores": _protocol(
            "coco/scores",
            "",
            library,
            as_predicted,
            "AP by the model's own scores, 1 where it has none; only present categories are asked",
        ),
    }

"""Metric plugin: how much IoU on RefCOCO changes if RefCOCO-M's corrected masks are the truth."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from harness.masks import Rle
from harness.metrics.label_noise import NAME, image_masks, iou
from harness.scores import Mean, Metric, Scores
from harness.task import ExtraMetric
from harness.tasks.refcoco_m.task import refcoco_m
from harness.types import Prediction, Sample

IMAGE_NUMBER_PATTERN = re.compile(r"(\d+)\.jpg\Z")
"""Number of an image in COCO at the end of a file name: COCO_train2014_000000581857.jpg."""


def refcoco_m_noise(*, data: str) -> ExtraMetric:
    """Mean change of IoU on RefCOCO's validation expressions by RefCOCO-M's masks, either way.

    gIoU on these expressions changes by no more than this. Expressions that RefCOCO-M left out, or
    has twice in an image, do not count; images are known by their numbers in COCO, so that RefCOCO
    has to be in refer's layout.

    Args:
        data: The root of the data, with `refcoco_m/` in it.
    """
    name = f"{NAME} (RefCOCO-M)"
    about = "mean change of IoU on the expressions of RefCOCO-M if its masks are the ground truth"

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        masks, number = image_masks(unit, predictions), IMAGE_NUMBER_PATTERN.search(unit[0].group)
        if masks is None or number is None:
            return {}
        corrected = _corrected(data).get((int(number[1]), unit[0].query.text.strip().lower()))
        if corrected is None or (corrected.height, corrected.width) != masks[0].shape:
            return {}
        truth, predicted, counted = masks
        change = iou(corrected.to_array(), predicted, counted) - iou(truth, predicted, counted)
        return {name: Mean(abs(change))}

    return ExtraMetric(Metric(name, better="lower", about=about), score)


@cache
def _corrected(data: str) -> Mapping[tuple[int, str], Rle]:
    """Return RefCOCO-M's masks by (image's number in COCO, expression), if there is only one."""
    masks: dict[tuple[int, str], list[Rle]] = {}
    for sample in refcoco_m(Path(data)).samples():
        if sample.target is not None and sample.target.answer.masks:
            key = int(sample.group), sample.query.text.strip().lower()
            masks.setdefault(key, []).append(sample.target.answer.masks[0])
    return {key: single for key, (single, *others) in masks.items() if not others}

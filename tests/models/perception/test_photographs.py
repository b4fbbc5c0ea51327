"""Real photographs, where they are at hand: the order of the models, not their exact scores."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from harness import media, plugins
from harness.types import AnswerForm, Query, query_id

PHOTOGRAPHS = Path(__file__).parents[4] / "shared/real/reason_seg/ReasonSeg/val"


def ground_truths():
    for path in sorted(PHOTOGRAPHS.glob("*.json")):
        if path.stem.endswith("-short"):  # the same photograph with a shorter question
            continue
        image = media.open_image(path.with_suffix(".jpg"))
        mask = np.zeros(image.size[::-1], dtype=np.uint8)
        for shape in json.loads(path.read_text(encoding="utf-8"))["shapes"]:
            cv2.fillPoly(mask, [np.array(shape["points"], dtype=np.int32)], 1)
        yield image, mask > 0


def mean_iou(model):
    scores = []
    for index, (image, ground_truth) in enumerate(ground_truths()):
        query = Query(id=query_id(str(index)), text="", media=(image,), forms=(AnswerForm.MASK,))
        (found,) = plugins.build("models", model).predict([query])
        mask = found.answer.masks[0].to_array()
        scores.append(np.count_nonzero(mask & ground_truth) / np.count_nonzero(mask | ground_truth))
    return np.mean(scores)


@pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason="the photographs are not at hand")
def test_saliency_is_far_above_both_floors_on_photographs():
    floor = max(mean_iou("random"), mean_iou("whole_frame"))
    assert 0 < floor < mean_iou("saliency") / 2

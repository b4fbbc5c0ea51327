"""Real photographs, where they are at hand: the order of the models, not their exact scores."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from harness import media, plugins
from harness.types import AnswerForm, Query, query_id

PHOTOGRAPHS = Path(__file__).parents[4] / "shared/real/reason_seg/ReasonSeg/val"


def truths():
    for path in sorted(PHOTOGRAPHS.glob("*.json")):
        if path.stem.endswith("-short"):  # the same photograph with a shorter question
            continue
        picture = media.image(path.with_suffix(".jpg"))
        mask = np.zeros(picture.size[::-1], dtype=np.uint8)
        for shape in json.loads(path.read_text(encoding="utf-8"))["shapes"]:
            cv2.fillPoly(mask, [np.array(shape["points"], dtype=np.int32)], 1)
        yield picture, mask > 0


def mean_iou(model):
    scores = []
    for index, (picture, truth) in enumerate(truths()):
        query = Query(id=query_id(str(index)), text="", media=(picture,), forms=(AnswerForm.MASK,))
        (found,) = plugins.build("models", model).predict([query])
        mask = found.answer.masks[0].to_array()
        scores.append(np.count_nonzero(mask & truth) / np.count_nonzero(mask | truth))
    return np.mean(scores)


@pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason="the photographs are not at hand")
def test_saliency_is_far_above_both_floors_on_photographs():
    floor = max(mean_iou("random"), mean_iou("whole_frame"))
    assert 0 < floor < mean_iou("saliency") / 2

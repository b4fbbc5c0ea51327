"""The change of IoU by inexact ground truth: hand-worked masks, laws, RefCOCO-M's masks, boards."""

from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from pyarrow import parquet

from harness.errors import UsageError
from harness.leaderboards.formatting import label_noise_notes
from harness.masks import Rle
from harness.media import pixels
from harness.metrics.label_noise import label_noise
from harness.tasks.refcoco_m.label_noise import refcoco_m_noise
from harness.types import (
    Answer,
    AnswerForm,
    Failure,
    FailureKind,
    Prediction,
    Query,
    Sample,
    Target,
    query_id,
)

SIDE = 20
IMAGE = pixels([np.zeros((SIDE, SIDE, 3), np.uint8)], times=[0.0], is_video=False, id="i")
SQUARE = np.zeros((SIDE, SIDE), bool)
SQUARE[5:15, 5:15] = True
EMPTY = np.zeros_like(SQUARE)


def value(metric, truth, predicted, *, ignore=None, text="a", group="g"):
    """The metric of one sample; None where it does not apply. `predicted` None is a failure."""
    query = Query(id=query_id(text), text=text, media=(IMAGE,), forms=(AnswerForm.MASK,))
    target = Target(
        answer=Answer(masks=(Rle.from_array(truth),)),
        ignore=None if ignore is None else (Rle.from_array(ignore),),
    )
    sample = Sample(id="s", query=query, target=target, group=group)
    answer = None if predicted is None else Answer(masks=(Rle.from_array(predicted),))
    failure = None if answer else Failure(FailureKind.PARSE, "unread")
    scores = metric.score([sample], [Prediction(query_id=query.id, answer=answer, failure=failure)])
    return next((score.value for score in scores.values()), None)


def test_a_square_of_ten_pixels():
    # One pixel out, without the corners: 140 pixels; in: 64.
    assert value(label_noise(pixels=1), SQUARE, SQUARE) == pytest.approx(1 - 64 / 100)
    assert value(label_noise(pixels=1), SQUARE, None) == 0
    assert value(label_noise(pixels=1), EMPTY, SQUARE) == 0
    assert value(label_noise(pixels=1), SQUARE, ~SQUARE) == pytest.approx(40 / 400)
    inner = np.zeros_like(SQUARE)
    inner[6:14, 6:14] = True
    assert value(label_noise(pixels=1), SQUARE, SQUARE, ignore=~inner) == 0


def test_an_outline_at_the_images_border_is_not_moved_in():
    left = np.zeros_like(SQUARE)
    left[:, :10] = True
    assert value(label_noise(pixels=1), left, left) == pytest.approx(1 - 10 / 11, abs=0.02)


MASKS = arrays(bool, (SIDE, SIDE))


@given(MASKS, MASKS, st.integers(1, 4))
def test_it_is_a_share_that_grows_with_the_distance_from_a_full_image(truth, predicted, pixels):
    assert 0 <= value(label_noise(pixels=pixels), truth, predicted) <= 1
    near, far = (value(label_noise(pixels=n), truth, ~EMPTY) for n in (pixels, pixels + 1))
    assert far >= near


@pytest.mark.parametrize("n_pixels", [0, 21])
def test_other_distances_are_refused(n_pixels):
    with pytest.raises(UsageError, match="1 to 20"):
        label_noise(pixels=n_pixels)


@pytest.fixture
def corrected(tmp_path):
    """A root with RefCOCO-M's table of one image, in which the square is a row shorter."""
    mask = SQUARE.copy()
    mask[5] = False

    def entry(id, sentences):
        rle = Rle.from_array(mask).to_json()
        box = [5.0, 6.0, 10.0, 9.0]
        return {
            "id": id,
            "category": "cup",
            "sentences": sentences,
            "bbox": box,
            "mask": {"counts": rle["counts"], "size": rle["size"]},
        }

    file = BytesIO()
    Image.new("RGB", (SIDE, SIDE)).save(file, "PNG")
    row = {
        "image": {"bytes": file.getvalue(), "path": None},
        "image_id": 581857,
        "file_name": "COCO_train2014_000000581857.jpg",
        "samples": [entry(1, ["The Cup", "twice"]), entry(2, ["twice"])],
    }
    folder = tmp_path / "refcoco_m" / "data"
    folder.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist([row]), folder / "validation-00000-of-00001.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "group", "change"),
    [
        ("the cup", "COCO_train2014_000000581857.jpg", 0.1),
        ("twice", "COCO_train2014_000000581857.jpg", None),
        ("another cup", "COCO_train2014_000000581857.jpg", None),
        ("the cup", "COCO_train2014_000000581858.jpg", None),
        ("the cup", "3f2a", None),
    ],
)
def test_masks_of_refcoco_m_are_found_by_image_and_expression(corrected, text, group, change):
    metric = refcoco_m_noise(data=str(corrected))
    assert value(metric, SQUARE, SQUARE, text=text, group=group) == (
        change if change is None else pytest.approx(change)
    )


def test_a_board_says_what_label_noise_means():
    metric = label_noise(pixels=3).metric
    rows = [
        SimpleNamespace(name=name, metrics={"gIoU": 0.5, metric.name: noise}, about=about)
        for name, noise, about in (
            ("a", 0.0312, {metric.name: metric.about}),
            ("b", None, {}),
            ("c", 0.5, {}),
        )
    ]
    (note,) = label_noise_notes(rows)
    assert "0.031 of a" in note and "0.500 of c" in note and " of b" not in note
    assert "3 pixels" in note and not [*label_noise_notes(rows[1:2])]

"""Ground truth and protocol of RVTBench's grounding task: one box per frame, by cIoU and gIoU.

The papers print cIoU and gIoU of boxes without a definition. Here cIoU is the sum of intersections
over the sum of unions, over all frames and questions; gIoU is the mean over questions of the mean
IoU over frames. Boxes are in pixels, right and bottom exclusive.
"""

import math
from collections.abc import Sequence

import numpy as np

from harness.errors import DataError
from harness.masks import Rle
from harness.metrics.tracks import BoxTrack, track_ious, track_overlap
from harness.scores import Mean, Metric, Ratio, Scores
from harness.task import Ceiling, Protocol
from harness.tasks.rvtbench.records import Record, boxes_of
from harness.tasks.rvtbench.task import Film
from harness.types import Answer, Box, Prediction, Sample, Target


def boxes_target(record: Record, film: Film) -> Target:
    """Return the true box of each frame, and its pixels as a mask for `harness verify`.

    Raises:
        DataError: a box is not within its frame.
    """
    track = boxes_of(record, film.names)
    width, height = film.media.size
    for name, box in zip(film.names, track, strict=True):
        if box is not None and (
            min(box.left, box.top) < 0 or box.right > width or box.bottom > height
        ):
            raise record.error(
                "boxes",
                f"boxes within {width} × {height} pixels",
                f"{tuple(box)} in frame {name!r}",
            )
    masks = tuple(_box_mask(box, width, height) for box in track)
    return Target(answer=Answer(box_track=track, masks=masks))


def _box_mask(box: Box | None, width: int, height: int) -> Rle:
    """Return the mask of the pixels that a box covers wholly or partly; empty without a box."""
    pixels = np.zeros((height, width), dtype=np.bool_)
    if box is not None:
        rows = slice(math.floor(box.top), math.ceil(box.bottom))
        pixels[rows, math.floor(box.left) : math.ceil(box.right)] = True
    return Rle.from_array(pixels)


def predicted_track(prediction: Prediction, frames: int) -> BoxTrack:
    """Return the predicted box of each frame; None in all for "no target" and for a failure.

    A list of boxes, as in files of predictions, counts as a track if it has one box per frame.

    Raises:
        DataError: the number of boxes is not that of the frames.
    """
    answer = prediction.answer
    if answer is None or (answer.no_target and answer.box_track is None):
        return (None,) * frames
    if answer.box_track is not None:
        return answer.box_track
    boxes = answer.boxes or ()
    if len(boxes) != frames:
        raise DataError(
            "boxes for a question about a video",
            expected=f"{frames}, one a frame",
            found=str(len(boxes)),
        )
    return boxes


def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return a question's areas of intersection and union, and its mean IoU over frames.

    A failure has no boxes and IoU 0, even if the ground truth has no boxes either.
    """
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None and sample.target.answer.box_track is not None
    ground_truth = sample.target.answer.box_track
    predicted = predicted_track(prediction, len(ground_truth))
    overlap = track_overlap(ground_truth, predicted)
    mean_iou = 0.0 if prediction.failure else float(track_ious(ground_truth, predicted).mean())
    return {"cIoU": Ratio(overlap.intersection, overlap.union), "gIoU": Mean(mean_iou)}


PROTOCOLS = {
    "rvtbench/boxes": Protocol(
        name="rvtbench/boxes",
        score=score,
        metrics=(
            Metric("cIoU", about="sum of shared areas / sum of united areas, over all frames"),
            Metric("gIoU", about="mean over questions of the mean IoU over frames"),
        ),
        headline="cIoU",
        ceiling=Ceiling(value=1.0),
        about="our reading of the papers' cIoU and gIoU of boxes; no code is published",
    )
}

"""Grounding: a box in each frame, by cumulative IoU over the data set and mean IoU over questions.

The papers' tables say cIoU and gIoU of boxes and do not define them. Here cIoU is ΣI / ΣU of areas
over all frames and questions, and gIoU the mean over questions of the mean IoU over frames.
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
    """The box in each frame, and the pixels of it, by which `harness verify` segments."""
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
    """The pixels that a box covers, those at its edge as well."""
    pixels = np.zeros((height, width), dtype=np.bool_)
    if box is not None:
        rows = slice(math.floor(box.top), math.ceil(box.bottom))
        pixels[rows, math.floor(box.left) : math.ceil(box.right)] = True
    return Rle.from_array(pixels)


def predicted_track(prediction: Prediction, frames: int) -> BoxTrack:
    """The predicted boxes; none in any frame for "no target" and for a failure.

    A file of predictions has boxes in a list: one a frame is a track.

    Raises:
        DataError: there are boxes, and not one a frame.
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
    """Areas and mean IoU of one question; a failure shares nothing, and has IoU 0."""
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None and sample.target.answer.box_track is not None
    ground_truth = sample.target.answer.box_track
    predicted = predicted_track(prediction, len(ground_truth))
    overlap = track_overlap(ground_truth, predicted)
    mean = 0.0 if prediction.failure else float(track_ious(ground_truth, predicted).mean())
    return {"cIoU": Ratio(overlap.intersection, overlap.union), "gIoU": Mean(mean)}


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
        about="our reading of the papers' cIoU and gIoU of boxes, which no code was seen of",
    )
}

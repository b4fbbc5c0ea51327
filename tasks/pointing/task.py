"""Questions whose ground truth is a region of an image, and protocols that score points in it."""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.masks import Rle, SoftMask
from harness.media import decode_image
from harness.metrics.points import values_at
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol
from harness.tasks.qa.images import images_of, open_images
from harness.tasks.qa.questions import Question
from harness.types import Answer, Point, Prediction, Sample

Levels = NDArray[np.uint8]
"""A region as its image has it: 0 to 255 a pixel."""
Weights = Callable[[Levels], NDArray[np.generic]]
"""Value of a point on each pixel, from the levels of a region."""
WHITE = 127
"""Level above which a pixel is in the region, where a protocol says nothing else."""


def read_levels(image: bytes | Path, where: str, *, any_channel: bool = False) -> Levels:
    """Levels of a region's image: its first channel, or the largest of a pixel's.

    Raises:
        MediaError: it is missing or damaged.
        DataError: no pixel is in the region, so that no point can be right.
    """
    frame = decode_image(io.BytesIO(image) if isinstance(image, bytes) else image, where)
    levels = np.ascontiguousarray(frame.max(axis=2) if any_channel else frame[:, :, 0])
    if not (levels > WHITE).any():
        raise DataError(f"{where}: mask", expected="a pixel that is white", found="none")
    return levels


def region_answer(levels: Levels, *, count: int = 1) -> Answer:
    """The region as a mask and in its levels, and `count` points of it as the perfect answer.

    The points are the pixels that are farthest from the region's border: no rounding of
    coordinates moves them out.
    """
    white = np.pad(levels == levels.max(), 1).astype(np.uint8)
    depth = np.asarray(cv2.distanceTransform(white, cv2.DIST_L2, 5))[1:-1, 1:-1]
    farthest = np.argsort(-depth, axis=None, kind="stable")[:count]
    rows, columns = np.unravel_index(farthest, levels.shape)
    return Answer(
        points=tuple(Point(float(x), float(y)) for x, y in zip(columns, rows, strict=True)),
        masks=(Rle.from_array(levels > WHITE),),
        soft_masks=(SoftMask.from_array(levels / 255.0),),
    )


def region_of(sample: Sample) -> Levels:
    """The levels of a sample's region."""
    assert sample.target is not None and sample.target.answer.soft_masks is not None
    return np.rint(sample.target.answer.soft_masks[0].to_array() * 255).astype(np.uint8)


def points_of(prediction: Prediction) -> tuple[Point, ...]:
    """The predicted points; none for a failure."""
    return (prediction.answer.points if prediction.answer else None) or ()


def share_protocol(name: str, weights: Weights, about: str) -> Protocol:
    """A protocol by which a sample scores the mean over its points of the weight under each.

    A sample without points scores 0.
    """

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        (sample,), (prediction,) = unit, predictions
        found = values_at(points_of(prediction), weights(region_of(sample)))
        return {"accuracy": Mean(float(found.mean()) if len(found) else 0.0)}

    def highest(samples: Iterable[Sample]) -> float:
        return float(np.mean([weights(region_of(sample)).max() for sample in samples] or [0.0]))

    plain = points_protocol(name, score, about, means="mean share of points inside the region")
    return replace(plain, ceiling=Ceiling(value=highest, tolerance=1e-12))


def points_protocol(
    name: str,
    score: Callable[[Sequence[Sample], Sequence[Prediction]], Scores],
    about: str,
    *,
    means: str,
) -> Protocol:
    """A protocol with the one number `accuracy`."""
    return Protocol(
        name=name,
        score=score,
        metrics=(Metric("accuracy", about=means),),
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about=about,
    )


def any_level(levels: Levels) -> NDArray[np.generic]:
    """1 for each pixel that is not black."""
    return levels > 0


def white(levels: Levels) -> NDArray[np.generic]:
    """1 for each pixel above half of white."""
    return levels > WHITE


def region_question(
    image: bytes | Path, levels: Levels, where: str, *, count: int = 1, **others: Any
) -> Question:
    """A question about an image and a region of it; `others` are further fields of `Question`.

    Raises:
        DataError: the region is of another size than the image.
    """
    question = Question(media=(image,), answer=region_answer(levels, count=count), **others)
    (media,) = open_images(question)
    if media.fault is None and media.size != levels.shape[::-1]:
        raise DataError(
            f"{where}: mask",
            expected="the size of its image, {} × {}".format(*media.size),
            found="{1} × {0}".format(*levels.shape),
        )
    return question


def row_question(row: Mapping[str, object], where: str, *, place: Path, **others: Any) -> Question:
    """The question of a table's row that holds an `image` and the `mask` of its region."""
    (image,) = images_of(row["image"], where, place)
    (mask,) = images_of(row["mask"], f"{where}: 'mask'", place)
    return region_question(image, read_levels(mask, where), where, **others)

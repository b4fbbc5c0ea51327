"""Tasks and protocols for benchmarks that ask for points and score them by a true region's mask.

Where2Place, RefSpatial, PointBench and RoboSpatial use it. `region_task` makes the task of a table
with one mask image per question; `share_protocols` makes protocols that score the share of a
response's points inside the region. Points are (x, y) in pixels.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.image_file import decode_mask
from harness.masks import Rle, SoftMask
from harness.metrics.point_readers import (
    PointReader,
    attribute_points,
    gemini_points,
    point_2d_points,
    tuple_points,
)
from harness.metrics.points import values_at
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol, Reads, ScoreUnit, Task
from harness.tasks.qa.answer_text import answer_text
from harness.tasks.qa.images import open_images
from harness.tasks.qa.questions import Fields, Question
from harness.tasks.qa.tables import images_of
from harness.tasks.qa.task import table_task
from harness.types import Answer, AnswerForm, Point, Prediction, Sample

Levels = NDArray[np.uint8]
"""Grey levels of a region's mask image, 0 to 255 (height × width)."""
Weights = Callable[[Levels], NDArray[np.generic]]
"""Function from a region's levels to the score of a point on each pixel (height × width)."""
POINTS = (AnswerForm.POINTS,)
FULL_SCORE = Ceiling(value=1.0)
WHITE = 127
"""Level above which a pixel is in the region, unless a protocol has another rule."""


def read_levels(image: bytes | Path, where: str, *, any_channel: bool = False) -> Levels:
    """Return the levels of a mask image: its first channel, or the maximum over channels.

    Raises:
        MediaError: the image is missing or damaged, or not 8-bit without transparency.
        DataError: no pixel is in the region, so that no point can be right.
    """
    frame = decode_mask(io.BytesIO(image) if isinstance(image, bytes) else image, where)
    levels = np.ascontiguousarray(frame.max(axis=2) if any_channel else frame[:, :, 0])
    if not (levels > WHITE).any():
        raise DataError(f"{where}: mask", expected="a pixel that is white", found="none")
    return levels


def region_answer(levels: Levels, *, count: int = 1) -> Answer:
    """Return a region as the true answer: its mask, its levels (0 to 1), and `count` points.

    The points are the pixels farthest from the region's border, so that rounding of coordinates
    does not move them out.
    """
    # The padding makes the image's edge a border of the region.
    brightest = np.pad(levels == levels.max(), 1).astype(np.uint8)
    depth = np.asarray(cv2.distanceTransform(brightest, cv2.DIST_L2, 5))[1:-1, 1:-1]
    farthest = np.argsort(-depth, axis=None, kind="stable")[:count]
    rows, columns = np.unravel_index(farthest, levels.shape)
    return Answer(
        points=tuple(Point(float(x), float(y)) for x, y in zip(columns, rows, strict=True)),
        masks=(Rle.from_array(levels > WHITE),),
        soft_masks=(SoftMask.from_array(levels / 255.0),),
    )


def region_of(sample: Sample) -> Levels:
    """Return the levels of a sample's true region."""
    assert sample.target is not None and sample.target.answer.soft_masks is not None
    return np.rint(sample.target.answer.soft_masks[0].to_array() * 255).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Forms:
    """The spellings of points that a benchmark's official scripts read in responses."""

    first: tuple[PointReader, ...] = ()
    """Readers of the spelling that the benchmark asks for; they are tried first."""
    others: tuple[PointReader, ...] = ()
    """Readers of single models' spellings; they are tried last, if `Prediction.answer` has no
    points."""

    def points_of(
        self, sample: Sample, prediction: Prediction, size: tuple[int, int] | None = None
    ) -> tuple[Point, ...] | None:
        """Return the predicted points; (): the answer has none; None: nothing can be read.

        They are in pixels of the image, or of the image scaled to `size` (width, height).
        """
        width, height = sample.query.size
        new_width, new_height = size or (width, height)
        text = answer_text(prediction) if prediction.responses else None
        if points := self._points_read_by(self.first, text, new_width, new_height):
            return points
        answer = prediction.answer
        if answer is not None and answer.points is not None:
            if size is None:
                return answer.points
            return tuple(
                Point(x / width * new_width, y / height * new_height) for x, y in answer.points
            )
        if points := self._points_read_by(self.others, text, new_width, new_height):
            return points
        return None if answer is None else ()

    def reads(self, sample: Sample, prediction: Prediction) -> object:
        """Return the predicted points; a function for `Protocol.reads`."""
        return self.points_of(sample, prediction)

    @staticmethod
    def _points_read_by(
        readers: Sequence[PointReader], text: str | None, width: int, height: int
    ) -> tuple[Point, ...]:
        """Return the points of the first reader that finds any in the text."""
        if not text:
            return ()
        for reader in readers:
            points = reader(text, width, height)
            if points:
                return tuple(points)
        return ()


def tuple_forms(**rule: Any) -> Forms:
    """Return the forms of a benchmark that asks for tuples such as `[(x, y), …]`.

    `rule` holds keywords of `tuple_points`. The spellings of Molmo, Qwen and Gemini are tried last.
    """
    first = partial(tuple_points, **rule)
    return Forms((first,), (attribute_points, point_2d_points, gemini_points))


LMMS_FORMS = tuple_forms(whole="shares", rectangles="none")
"""Forms that lmms-eval reads; it takes whole numbers, like fractions, as shares of the image's
sides."""


def share_protocols(name: str, **variants: tuple[Weights, Forms, str]) -> dict[str, Protocol]:
    """Return protocols `NAME/VARIANT`: the mean weight of a response's points, 0 without points.

    Each variant is (weights, forms of points that are read, description).
    """
    protocols = dict[str, Protocol]()
    for variant, (weights, forms, about) in variants.items():
        protocols |= points_protocol(
            f"{name}/{variant}",
            partial(_share, weights=weights, forms=forms),
            about,
            reads=forms.reads,
            means="mean share of points inside the region",
            ceiling=Ceiling(value=partial(_highest, weights=weights), tolerance=1e-12),
        )
    return protocols


def _share(
    unit: Sequence[Sample], predictions: Sequence[Prediction], *, weights: Weights, forms: Forms
) -> Scores:
    """Return the mean weight of a response's points as `accuracy`."""
    points = forms.points_of(unit[0], predictions[0]) or ()
    values = values_at(points, weights(region_of(unit[0])))
    return {"accuracy": Mean(float(values.mean()) if len(values) else 0.0)}


def _highest(samples: Iterable[Sample], *, weights: Weights) -> float:
    """Return the highest possible score: the mean over samples of their largest weight."""
    return float(np.mean([weights(region_of(sample)).max() for sample in samples] or [0.0]))


def points_protocol(
    name: str,
    score: ScoreUnit,
    about: str,
    *,
    means: str,
    reads: Reads,
    categories: Sequence[str] = (),
    ceiling: Ceiling = FULL_SCORE,
) -> dict[str, Protocol]:
    """Return {name: protocol} with the metric `accuracy` and one metric for each category."""
    protocol = Protocol(
        name=name,
        score=score,
        metrics=(
            Metric("accuracy", about=means),
            *(Metric(category, about=f"the same, of {category}") for category in categories),
        ),
        headline="accuracy",
        ceiling=ceiling,
        about=about,
        reads=reads,
    )
    return {name: protocol}


def any_level(levels: Levels) -> NDArray[np.generic]:
    """Return 1 for each pixel that is not black."""
    return levels > 0


def white(levels: Levels) -> NDArray[np.generic]:
    """Return 1 for each pixel brighter than WHITE."""
    return levels > WHITE


def with_region(question: Question, levels: Levels, where: str, *, count: int = 1) -> Question:
    """Return a question about an image with `region_answer` as its true answer.

    Raises:
        DataError: the region has another size than the image.
    """
    (media,) = open_images(question)
    if media.fault is None and media.size != levels.shape[::-1]:
        raise DataError(
            f"{where}: mask",
            expected="the size of its image, {} × {}".format(*media.size),
            found="{1} × {0}".format(*levels.shape),
        )
    return replace(question, answer=region_answer(levels, count=count))


def region_task(
    name: str,
    data: Path,
    files: str,
    fields: Fields,
    protocols: Mapping[str, Protocol],
    split: str,
    protocol: str,
    *,
    version: int = 2,
    read: Callable[..., Question] | None = None,
) -> Task:
    """Return the task of a table of questions about regions, in the folder `name` of `data`.

    Without `read`, a row has the mask image of its region in the field `mask`. The other arguments
    are those of `table_task`.
    """

    def with_mask(row: Mapping[str, object], where: str, root: Path) -> Question:
        (mask,) = images_of(row["mask"], f"{where}: 'mask'", root)
        return with_region(fields.read_record(row, where, root), read_levels(mask, where), where)

    make, root = read or with_mask, data / name
    return table_task(
        name,
        root,
        files,
        fields,
        protocols,
        split,
        protocol,
        read=make,
        forms=POINTS,
        version=version,
    )

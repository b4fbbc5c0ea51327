"""Questions whose ground truth is a region of an image, and protocols that score points in it."""

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
"""A region as its image has it: 0 to 255 a pixel."""
Weights = Callable[[Levels], NDArray[np.generic]]
"""Value of a point on each pixel, from the levels of a region."""
POINTS = (AnswerForm.POINTS,)
WHOLE = Ceiling(value=1.0)
WHITE = 127
"""Level above which a pixel is in the region, where a protocol says nothing else."""


def read_levels(image: bytes | Path, where: str, *, any_channel: bool = False) -> Levels:
    """Levels of a region's image: its first channel, or the largest of a pixel's.

    Raises:
        MediaError: it is missing or damaged, or not an image of 8 bits without transparency.
        DataError: no pixel is in the region, so that no point can be right.
    """
    frame = decode_mask(io.BytesIO(image) if isinstance(image, bytes) else image, where)
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


@dataclass(frozen=True, slots=True)
class Forms:
    """Forms of points that a benchmark's official scripts read, from any model's responses."""

    first: tuple[PointReader, ...] = ()
    """Readers of the form that the benchmark asks for: what they find counts."""
    others: tuple[PointReader, ...] = ()
    """Readers of the forms that official scripts take from single models: they are tried where the
    model's own grammar has read nothing."""

    def points_of(
        self, sample: Sample, prediction: Prediction, size: tuple[int, int] | None = None
    ) -> tuple[Point, ...] | None:
        """The predicted points, which may be none; None if nothing reads an answer.

        They are in pixels of the image, or where `size` is given, in that of another one.
        """
        width, height = sample.query.size
        across, down = size or (width, height)
        text = answer_text(prediction) if prediction.responses else None
        if points := self._read(self.first, text, across, down):
            return points
        if prediction.answer is not None and prediction.answer.points is not None:
            scaled = prediction.answer.points
            if size is not None:
                scaled = tuple(Point(x / width * across, y / height * down) for x, y in scaled)
            return scaled
        if points := self._read(self.others, text, across, down):
            return points
        return None if prediction.answer is None else ()

    def reads(self, sample: Sample, prediction: Prediction) -> object:
        """The `reads` of a protocol."""
        return self.points_of(sample, prediction)

    @staticmethod
    def _read(
        readers: Sequence[PointReader], text: str | None, width: int, height: int
    ) -> tuple[Point, ...]:
        readings = (reader(text, width, height) for reader in readers) if text else ()
        return tuple(next(filter(None, readings), ()))


def tuple_forms(**rule: Any) -> Forms:
    """Tuples such as `[(x, y), …]`, read by `rule` of `tuple_points`; else what Molmo, Qwen and
    Gemini write.
    """
    first = partial(tuple_points, **rule)
    return Forms((first,), (attribute_points, point_2d_points, gemini_points))


LMMS_FORMS = tuple_forms(whole="shares", rectangles="none")
"""Forms that lmms-eval reads; whole numbers are shares too."""


def share_protocols(name: str, **kinds: tuple[Weights, Forms, str]) -> dict[str, Protocol]:
    """Protocols `NAME/KIND` by which a sample scores the mean weight of its points.

    A sample without points scores 0. `kinds` are the weights, the forms of points that count, and
    what the protocol is about.
    """
    protocols = dict[str, Protocol]()
    for kind, (weights, forms, about) in kinds.items():
        protocols |= points_protocol(
            f"{name}/{kind}",
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
    points = forms.points_of(unit[0], predictions[0]) or ()
    values = values_at(points, weights(region_of(unit[0])))
    return {"accuracy": Mean(float(values.mean()) if len(values) else 0.0)}


def _highest(samples: Iterable[Sample], *, weights: Weights) -> float:
    return float(np.mean([weights(region_of(sample)).max() for sample in samples] or [0.0]))


def points_protocol(
    name: str,
    score: ScoreUnit,
    about: str,
    *,
    means: str,
    reads: Reads,
    categories: Sequence[str] = (),
    ceiling: Ceiling = WHOLE,
) -> dict[str, Protocol]:
    """The protocol of a name: the number `accuracy`, and the same of each category's samples."""
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
    """1 for each pixel that is not black."""
    return levels > 0


def white(levels: Levels) -> NDArray[np.generic]:
    """1 for each pixel above half of white."""
    return levels > WHITE


def with_region(question: Question, levels: Levels, where: str, *, count: int = 1) -> Question:
    """A question about an image, answered by `count` points of a region of it.

    Raises:
        DataError: the region is of another size than the image.
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
    """The task of questions on regions; see `table_task`, which gets the folder `name` of `data`.

    Without `read`, rows hold the `mask` of their region beside the other fields.
    """

    def with_mask(row: Mapping[str, object], where: str, place: Path) -> Question:
        (mask,) = images_of(row["mask"], f"{where}: 'mask'", place)
        return with_region(fields.read_record(row, where, place), read_levels(mask, where), where)

    make, place = read or with_mask, data / name
    return table_task(
        name,
        place,
        files,
        fields,
        protocols,
        split,
        protocol,
        read=make,
        forms=POINTS,
        version=version,
    )

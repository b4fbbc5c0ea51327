"""Read the fields of one record of COCO's results: its category, score, box and masks.

`where` names a record's file and number, for messages.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import sub
from pathlib import Path
from typing import Any, TypeAlias

from pycocotools import mask as coco_masks

from harness.coordinates import in_pixels
from harness.errors import DataError, MaskError, raised_as
from harness.foreign_lines import command
from harness.formats.polygons import mask_of_polygons
from harness.formats.rotated import refuse_rotated
from harness.interchange.rows import AS_DOCUMENTED, Written
from harness.masks import Rle
from harness.types import AnswerForm, Sample

Record: TypeAlias = Mapping[str, Any]
Placed: TypeAlias = tuple[str, Record]
"""A record's file and number, for messages, and the record."""
MIN_SIDE = 2**-20
"""Pixels to which a box's zero width or height is set: it overlaps nothing, as in COCO's code."""
OTHER_SCORE_KEYS = ("scores", "confidence", "conf", "prob", "probability", "predicted_iou")
"""Keys under which other files write a score: such a record is refused, as `score` is missing."""
DECIMAL = re.compile(r"-?\d{1,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?")
BOX_TOLERANCE = 1.5
"""Pixels by which a box may differ from that of its record's mask."""
MIN_COMPARED_SIDE = 8
"""Pixels of a mask's side below which its box is not compared with it."""
JQ_FROM_CORNERS = (
    'map(if .bbox then .bbox |= (if .[2] < .[0] or .[3] < .[1] then error("a box that is not two '
    'corners") else [.[0], .[1], .[2] - .[0], .[3] - .[1]] end) else . end)'
)
"""jq program that makes [left, top, width, height] of two corners."""


def category_of(record: Record) -> str | None:
    """Return the `category_id` of a record as text; None if it has none."""
    category = record.get("category_id")
    if isinstance(category, float) and category.is_integer():  # of a numpy array
        category = int(category)
    return str(category) if type(category) in (int, str) else None


def file_of(where: str) -> str:
    """Return the name of the file of a record's place."""
    return Path(where.rpartition(", record")[0]).name


def score_of(record: Record, where: str) -> float | None:
    """Return the score of a record; None if it has none under any name."""
    score = record.get("score")
    if score is None:
        if other_name := next((name for name in OTHER_SCORE_KEYS if name in record), None):
            raise DataError(
                where, expected="'score', as COCO's results call it", found=repr(other_name)
            )
        return None
    score = _number(score)
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score):
        fix = ""
        if isinstance(score, list) and len(score) == 1:
            unboxed = (
                'map(if .score | type == "array" and length == 1 then .score |= .[0] else . end)'
            )
            fix = f"{command(unboxed, file_of(where))} makes numbers of lists."
        shortened = repr(score)[:40]
        raise DataError(f"{where}: 'score'", expected="a finite number", found=shortened, fix=fix)
    return float(score)


def _number(value: object) -> object:
    """Return a number that is written as a text, "0.7", as a number; other values unchanged."""
    return float(value) if isinstance(value, str) and DECIMAL.fullmatch(value) else value


def box_of(
    record: Record, sample: Sample, where: str, notes: Counter[str], written: Written
) -> list[float]:
    """Return [left, top, right, bottom] of a record, in pixels of the sample's image."""
    box = record.get("bbox")
    if not box and record.get("segmentation"):
        (mask,) = masks_of(record, sample, where, written)
        box = coco_masks.toBbox(mask.to_json()).tolist() if mask else [0.0] * 4
        written = AS_DOCUMENTED  # it is the mask's
    refuse_rotated(record, where, file_of(where), "")
    what = f"{where}: 'bbox'"
    if isinstance(box, list):
        box = list(map(_number, box))
    if (
        not isinstance(box, list)
        or len(box) != 4
        or any(isinstance(side, bool) or not isinstance(side, (int, float)) for side in box)
        or not all(map(math.isfinite, box))
        or min(box[2:]) < 0
    ):
        expected = "[left, top, width, height] in pixels"
        raise DataError(what, expected=expected, found=repr(box)[:60], fix=_of_sides(record, where))
    _refuse_corners(box, record, sample, where, written)
    left, top, width, height = in_pixels(box, written.coordinates, sample.query.size)
    if not (width and height):
        notes["boxes without a width or a height, which overlap nothing"] += 1
    return [left, top, left + (width or MIN_SIDE), top + (height or MIN_SIDE)]


def _of_sides(record: Record, where: str) -> str:
    """Return the commands for a record with the four sides of its box; "" for others."""
    if "bbox" in record or not {"x", "y", "width", "height"} <= record.keys():
        return ""
    corner, centre = (
        command(f"map(.bbox = [{x}, {y}, .width, .height])", file_of(where))
        for x, y in ((".x", ".y"), (".x - .width / 2", ".y - .height / 2"))
    )
    return (
        f"If x and y are the left top corner, {corner} makes one. If they are the centre, as "
        f"Roboflow writes them, {centre}."
    )


def _refuse_corners(
    box: Sequence[float], record: Record, sample: Sample, where: str, written: Written
) -> None:
    """Raise DataError if a box is the two corners of the mask in its own record."""
    mask = None
    with suppress(DataError):  # a mask that cannot be read is not needed for boxes
        masks = masks_of(record, sample, where, written) if record.get("segmentation") else []
        mask = next(filter(None, masks), None)
    if mask is None:
        return
    left, top, width, height = coco_masks.toBbox(mask.to_json()).tolist()
    corners = (left, top, left + width, top + height)
    difference = max(abs(box[2] - width), abs(box[3] - height))
    from_corners = max(map(abs, map(sub, box, corners)))
    is_small = (
        min(width, height) < MIN_COMPARED_SIDE
    )  # where a loose box may be the corners by chance
    to_sides = command(JQ_FROM_CORNERS, file_of(where))
    # Much nearer to the corners than to the sides, and not by chance.
    if (
        from_corners <= BOX_TOLERANCE
        and difference > max(BOX_TOLERANCE, 4 * from_corners)
        and not is_small
    ):
        raise DataError(
            f"{where}: 'bbox'",
            expected="[left, top, width, height] in pixels",
            found=f"{box}, the corners of the record's own mask",
            fix=f"If all are corners, {to_sides} writes their sides.",
        )


def masks_of(record: Record, sample: Sample, where: str, written: Written) -> list[Rle | None]:
    """Return a record's masks: one for an image; for a video one per frame, None if absent."""
    key = "segmentations" if sample.query.form is AnswerForm.MASK_TRACK else "segmentation"
    segmentation = record.get(key)
    if segmentation is None:
        raise DataError(where, expected=f'"{key}"', found=", ".join(record)[:60])
    masks = segmentation if key == "segmentations" else [segmentation]
    if not isinstance(masks, list) or len(masks) != len(sample.query.media[0]):
        count = len(sample.query.media[0])
        given_masks = f"{len(masks)}" if isinstance(masks, list) else repr(masks)[:40]
        raise DataError(
            f"{where}: {key!r}", expected=f"{count} masks, one a frame", found=given_masks
        )
    size, by_rows = sample.query.size, written.by_rows
    return [None if mask is None else _mask(mask, size, where, by_rows=by_rows) for mask in masks]


def _mask(plain: object, size: tuple[int, int], where: str, *, by_rows: bool) -> Rle:
    """Return the mask of a run-length or of polygons, for an image of (width, height)."""
    width, height = size
    what = f"{where}: 'segmentation'"
    if not isinstance(plain, list):
        with raised_as(DataError, what, "a run-length or polygons", MaskError):
            mask = Rle.from_json(plain, by_rows=by_rows)
        if mask.size != size:
            expected, given_size = (
                f"[{height}, {width}] as its size",
                f"[{mask.height}, {mask.width}]",
            )
            raise DataError(
                what, expected=expected, found=given_size, fix="Masks are never resized."
            )
        return mask
    return mask_of_polygons(plain, size, what)

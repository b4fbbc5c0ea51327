"""Ground truth of a cell, by the form of answer and the convention that the description names."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from harness.errors import DataError
from harness.layout.mask_image import foreground, read_mask_image
from harness.layout.places import refuse_outside
from harness.masks import Rle
from harness.media import Media
from harness.tasks.pointing.task import Levels
from harness.tasks.qa.questions import numeric
from harness.tasks.refer.annotations import ImageInfo, Thing, is_polygon, union
from harness.tasks.table.cells import clock_span, image_cells, is_empty, numbers, plain_value
from harness.tasks.table.description import AnswerField
from harness.types import Answer, Box, Interval

LOSSLESS = ("PNG", "BMP", "TIFF")
"""Pillow's names of formats that keep the values of a mask."""
REACH = 1.0
"""Pixels by which a box may leave its image: files round."""


def plain_answer(value: object, field: AnswerField, where: str) -> tuple[Answer, tuple[str, ...]]:
    """Return a number, a count, a text or an interval, and further right texts.

    Raises:
        DataError: the cell holds something else.
    """
    match field.form:
        case "number":
            return Answer(number=numeric(plain_value(value), where)), ()
        case "count":
            count = numeric(plain_value(value), where)
            if count < 0 or not count.is_integer():
                raise DataError(where, expected="a whole number ≥ 0", found=repr(value)[:40])
            return Answer(count=int(count)), ()
        case "interval":
            start, end = clock_span(value) or numbers(value, 2, where)
            if not 0 <= start < end:
                raise DataError(where, expected="0 ≤ start < end", found=repr(value)[:60])
            scale = 1000 if field.written == "milliseconds" else 1
            return Answer(interval=Interval(start / scale, end / scale)), ()
    plain = plain_value(value)
    texts = [str(part) for part in (plain if isinstance(plain, list) else [value])]
    if any(is_empty(text) for text in texts) or not texts or is_empty(value):
        raise DataError(where, expected="a text, or a list of right texts", found=repr(value)[:60])
    return Answer(text=texts[0]), tuple(texts[1:])


def boxes_of(value: object, field: AnswerField, media: Media, where: str) -> tuple[Box, ...]:
    """Return the boxes of a cell in pixels of the image: one of four numbers, or a list of such.

    Raises:
        DataError: it is something else, or a box without area or outside the image, which says
            that the description names another order or frame than the file has.
    """
    plain = plain_value(value)
    entries = plain if isinstance(plain, list) and plain and _is_list(plain[0]) else [plain]
    return tuple(_box(entry, field, media, where) for entry in entries)


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple, Mapping))


def _box(value: object, field: AnswerField, media: Media, where: str) -> Box:
    if isinstance(value, Mapping):
        value = list(value.values())
    sides = numbers(value, 4, where)
    width, height = media.size
    across, down = {
        "pixels": (1.0, 1.0),
        "relative": (width, height),
        "thousandths": (width / 1000, height / 1000),
    }[field.coordinates]
    left, top, third, fourth = (
        side * scale for side, scale in zip(sides, (across, down) * 2, strict=True)
    )
    if field.written == "xywh":
        third, fourth = left + third, top + fourth
    elif field.written == "cxcywh":
        left, top, third, fourth = (
            left - third / 2,
            top - fourth / 2,
            left + third / 2,
            top + fourth / 2,
        )
    box = Box(left, top, third, fourth)
    if (
        box.right <= box.left
        or box.bottom <= box.top
        or min(box.left, box.top) < -REACH
        or box.right > width + REACH
        or box.bottom > height + REACH
    ):
        raise DataError(
            where,
            expected=f"a box with an area within its image, {width} × {height}, written as "
            f"{field.written} in {field.coordinates}",
            found=repr(value)[:60],
            fix="Does the description state another order (written) or frame (coordinates) than "
            "the file has?",
        )
    return box


def mask_of(
    value: object, field: AnswerField, size: tuple[int, int], folder: Path, where: str
) -> Rle:
    """Return the mask of a cell: an image of it, or COCO's polygons or run-length.

    Args:
        value: The cell.
        field: The convention.
        size: Width and height of its image.
        folder: The folder of files that are named.
        where: The place of the cell, for messages.

    Raises:
        DataError: it is something else.
    """
    if field.written == "image":
        (image,) = image_cells(value, where, folder)
        what = f"{where}: {image}" if isinstance(image, Path) else where
        return Rle.from_array(foreground(read_mask_image(image, what, LOSSLESS), what))
    plain = plain_value(value)
    if isinstance(plain, list) and plain and type(plain[0]) in (int, float):
        plain = [plain]  # one polygon
    if isinstance(plain, list):
        refuse_outside([part for part in plain if is_polygon(part)], size, where)
    image_info = ImageInfo(id=0, file_name="", width=size[0], height=size[1])
    thing = Thing(0, 0, 0, crowd=False, plain={"segmentation": plain}, where=where)
    mask = union(thing.parts(image_info))
    if mask.area == 0 and isinstance(plain, list) and plain:
        raise DataError(
            where,
            expected="polygons that cover a pixel of their image",
            found=repr(plain)[:60],
            fix="An empty list is an object that is not there.",
        )
    return mask


def region_of(value: object, field: AnswerField, media: Media, folder: Path, where: str) -> Levels:
    """Return the region in which points count, 255 inside, from a mask or from boxes."""
    if field.written in ("image", "coco"):
        mask = mask_of(value, field, media.size, folder, where).to_array()
        if not mask.any():
            raise DataError(where, expected="a region with a pixel", found="none")
        return np.asarray(mask, dtype=np.uint8) * np.uint8(255)
    width, height = media.size
    levels = np.zeros((height, width), dtype=np.uint8)
    for box in boxes_of(value, field, media, where):
        left, top = (max(round(side), 0) for side in (box.left, box.top))
        levels[top : max(round(box.bottom), top + 1), left : max(round(box.right), left + 1)] = 255
    return levels

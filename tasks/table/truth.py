"""Read the ground truth in a cell, by the form and the convention that the description names."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from harness.errors import DataError
from harness.image_file import is_turned
from harness.layout.mask_image import foreground, read_mask_image
from harness.layout.places import (
    MIN_SIDE_FOR_FRACTIONS,
    refuse_ignored_orientation,
    refuse_outside,
)
from harness.masks import Rle
from harness.media import Media, files_of
from harness.tasks.pointing.task import Levels
from harness.tasks.qa.questions import numeric
from harness.tasks.refer.annotations import ImageInfo, ObjectEntry, is_polygon, union
from harness.tasks.table.alternatives import marked_text
from harness.tasks.table.cells import (
    clock_span,
    image_cells,
    is_empty,
    numbers,
    only_window,
    plain_value,
    polygons_of,
    right_texts,
)
from harness.tasks.table.description import PARTS, AnswerField
from harness.types import Answer, Box, Interval

LOSSLESS = ("PNG", "BMP", "TIFF")
"""Pillow's names of formats that keep the values of a mask."""
ACROSS, DOWN = ("width", "w"), ("height", "h")
SIDES: Mapping[str, Sequence[Sequence[str]]] = {
    "xyxy": (
        ("xmin", "x_min", "x1", "x_1", "xtl", "left"),
        ("ymin", "y_min", "y1", "y_1", "ytl", "top"),
        ("xmax", "x_max", "x2", "x_2", "xbr", "right"),
        ("ymax", "y_max", "y2", "y_2", "ybr", "bottom"),
    ),
    "xywh": (("x", "xmin", "x_min", "left"), ("y", "ymin", "y_min", "top"), ACROSS, DOWN),
    "cxcywh": (
        ("x", "cx", "xc", "x_center", "center_x"),
        ("y", "cy", "yc", "y_center", "center_y"),
        ACROSS,
        DOWN,
    ),
}
"""Names of the sides of a box in an object, by the convention."""
FROM_ZERO = ("x0", "y0", "x1", "y1")
"""Names of the sides of a box as xyxy, of which `x1` is the right one."""
LARGEST_FRACTION = 1.1
"""Largest number of a box in fractions of its image's sides, which may leave it."""
STATES_SECONDS = re.compile(r"\ds|\bs\b|sec|:", re.IGNORECASE)
"""Parts of an interval's text that show its unit: `3s`, `3 sec`, `0:03`."""
REACH = 1.0
"""Pixels by which a box may leave its image, since files round."""


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
            window = only_window(value)
            span = clock_span(window)
            if isinstance(window, list) and any(isinstance(part, list) for part in window):
                raise DataError(
                    where,
                    expected="one window, [start, end]",
                    found=repr(value)[:60],
                    fix="Write the window that is right in each record, in seconds, or leave out "
                    "the records with several.",
                )
            if span and field.written == "milliseconds" and STATES_SECONDS.search(str(window)):
                raise DataError(
                    where,
                    expected="two numbers of milliseconds, as the description has it",
                    found=f"{value!r:.60}, which states seconds",
                    fix='If all are so, written = "seconds" in [answer] reads them.',
                )
            start, end = span or numbers(window, 2, where)
            if not 0 <= start < end:
                raise DataError(where, expected="0 ≤ start < end", found=repr(value)[:60])
            scale = 1000 if field.written == "milliseconds" else 1
            return Answer(interval=Interval(start / scale, end / scale)), ()
    parts = right_texts(value)
    if parts == [value] and (odd := _odd_part(value)):
        raise DataError(
            where,
            expected="a text, or a list of right texts",
            found=odd[:60],
            fix="Write the texts alone, as `map(.answer)` of jq does for objects, or name another "
            "field.",
        )
    texts = [str(part) for part in parts]
    if field.separator is None and parts == [value] and (marked := marked_text([value])):
        mark, text = marked
        raise DataError(
            where,
            expected="one right text, or a list of them",
            found=f"{text!r:.60}, which may be several",
            fix=f'In [answer], separator = {json.dumps(mark)} reads several, and separator = "" '
            "states that each cell is one text.",
        )
    if field.separator:
        pieces = [piece.strip() for text in texts for piece in text.split(field.separator)]
        texts = [piece for piece in pieces if piece]
    if any(is_empty(text) for text in texts) or not texts or is_empty(value):
        raise DataError(where, expected="a text, or a list of right texts", found=repr(value)[:60])
    return Answer(text=texts[0]), tuple(texts[1:])


def _odd_part(value: object) -> str:
    """Return what of a cell is not a right text; "" if the cell is one.

    The text of a list of numbers, or of tuples, is a text: models write boxes and points so.
    """
    if isinstance(value, dict):
        return repr(value)
    plain = plain_value(value)
    if not isinstance(plain, list):
        return ""
    odd = [part for part in plain if type(part) not in (int, float, tuple)]
    if odd:
        return repr(next((part for part in odd if not isinstance(part, str)), odd[0]))
    return "" if plain and isinstance(value, str) else repr(plain)


def boxes_of(value: object, field: AnswerField, media: Media, where: str) -> tuple[Box, ...]:
    """Return the boxes of a cell, in pixels of the image. A cell is one box, or a list of them.

    Raises:
        DataError: it is something else, or a box without area or outside the image, as it is where
            the description names another order or frame than the file has.
    """
    plain = plain_value(value)
    entries = plain if isinstance(plain, list) and plain and _is_list(plain[0]) else [plain]
    return tuple(_box(entry, field, media, where) for entry in entries)


def _is_list(value: object) -> bool:
    """Return True for a value that may be a box in a list of boxes."""
    return isinstance(value, (list, tuple, Mapping))


def _box(value: object, field: AnswerField, media: Media, where: str) -> Box:
    """Return one box in pixels of the image, from four numbers in the described order and frame."""
    if isinstance(value, Mapping):
        value = _named_sides(value, field.written, where)
    sides = numbers(value, 4, where)
    width, height = media.size
    is_large = min(width, height) >= MIN_SIDE_FOR_FRACTIONS
    if field.coordinates != "relative" and is_large and 0 < max(sides) <= LARGEST_FRACTION:
        raise DataError(
            where,
            expected=f"a box in {field.coordinates}, as the description has it",
            found=f"{value!r:.60}, which are fractions of the image",
            fix='If all boxes are so, coordinates = "relative" in [answer] reads them.',
        )
    parts = PARTS.get(field.coordinates)
    across, down = (width / parts, height / parts) if parts else (1.0, 1.0)
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


def named_sides(value: object, written: str) -> list[object]:
    """Return the sides of a box in an order that their names show; [] if they do not.

    >>> named_sides({"h": 9, "w": 8, "y": 2, "x": 1}, "xywh"), named_sides({"x": 1, "y": 2}, "xywh")
    ([1, 2, 8, 9], [])
    """
    sides = value if isinstance(value, Mapping) and len(value) == 4 else {}
    named = [[side for key, side in sides.items() if str(key).lower() in n] for n in SIDES[written]]
    return [side for (side,) in named] if all(len(fitting) == 1 for fitting in named) else []


def _named_sides(value: Mapping[str, object], written: str, where: str) -> list[object]:
    """Return the sides of a box in the order of their names.

    Sides with unknown names are read in the order of the file.

    Raises:
        DataError: there are not four, or a known name stands for another side than `written` has.
    """
    sides = {str(key).lower(): side for key, side in value.items()}
    known = SIDES[written]
    if written == "xyxy" and sides.keys() == {*FROM_ZERO}:
        known = [(name,) for name in FROM_ZERO]
    named = [[key for key in sides if key in names] for names in known]
    all_names = {name for order in SIDES.values() for names in order for name in names}
    is_in_order = all(
        key in names or key not in all_names for key, names in zip(sides, known, strict=False)
    )
    if len(sides) != 4 or len(value) != 4 or not (all(named) or is_in_order):
        raise DataError(
            where,
            expected=f"four numbers, or names such as {', '.join(n[0] for n in SIDES[written])}",
            found=", ".join(map(str, value))[:80],
            fix="Write boxes as four numbers in a list, or name another order (written).",
        )
    return [sides[key] for key, *_ in named] if all(named) else [*sides.values()]


def mask_of(
    value: object, field: AnswerField, media: Media | None, folder: Path, where: str
) -> Rle:
    """Return the mask of a cell: an image of it, or COCO's polygons or run-length.

    Args:
        value: The cell.
        field: The convention.
        media: Its image, which only polygons and run-lengths need.
        folder: The folder of files that are named.
        where: The place of the cell, for messages.

    Raises:
        DataError: it is something else.
    """
    if field.written == "image":
        image, *others = image_cells(value, where, folder)
        if others:
            raise DataError(
                where,
                expected="one image of a mask",
                found=f"{1 + len(others)} images",
                fix="Write one image in which the pixels of all objects are 255.",
            )
        if media is not None and image in files_of(media):
            raise DataError(
                where,
                expected="a mask in an image of its own",
                found=f"the image that is shown, {image}",
                fix="Name the field of the picture in [media], or a folder that has it.",
            )
        what = f"{where}: {image}" if isinstance(image, Path) else where
        return Rle.from_array(foreground(read_mask_image(image, what, LOSSLESS), what))
    assert media is not None, "polygons and run-lengths are of an image"
    plain, size = polygons_of(plain_value(value)), media.size
    if isinstance(plain, list) and plain and type(plain[0]) in (int, float):
        plain = [plain]  # one polygon
    if isinstance(plain, list):
        polygons = [part for part in plain if is_polygon(part)]
        if any(map(is_turned, files_of(media))):
            refuse_ignored_orientation(polygons, size, where)
        refuse_outside(polygons, size, where)
    image_info = ImageInfo(id=0, file_name="", width=size[0], height=size[1])
    entry = ObjectEntry(0, 0, 0, crowd=False, plain={"segmentation": plain}, where=where)
    mask = union(entry.parts(image_info))
    if mask.area == 0 and isinstance(plain, list) and plain:
        raise DataError(
            where,
            expected="polygons that cover a pixel of their image",
            found=repr(plain)[:60],
            fix="An empty list is an object that is not there.",
        )
    return mask


def objects_of(value: object, folder: Path, where: str) -> list[int]:
    """Return the numbers of the objects in an image of masks, which `mask_of` reads as one mask."""
    (image,) = image_cells(value, where, folder)
    values = read_mask_image(image, where, LOSSLESS).values
    return [number for number in np.unique(values).tolist() if number]


def are_points(value: object) -> bool:
    """Return True for a list of points, each with the keys x and y or of two numbers.

    >>> are_points([{"x": 3.5, "y": 4}]), are_points("[[3, 4]]"), are_points([[3, 4, 5, 6]])
    (True, True, False)
    """
    plain = plain_value(value)
    return isinstance(plain, list) and bool(plain) and all(map(_is_point, plain))


def _is_point(entry: object) -> bool:
    """Return True for a point with the keys x and y, or of two numbers."""
    if isinstance(entry, Mapping):
        entry = [*entry.values()] if entry.keys() == {"x", "y"} else None
    return (
        isinstance(entry, (list, tuple))
        and len(entry) == 2
        and all(type(side) in (int, float) for side in entry)
    )


def region_of(value: object, field: AnswerField, media: Media, folder: Path, where: str) -> Levels:
    """Return the region in which points count, 255 inside, from a mask or from boxes."""
    if field.written in ("image", "coco"):
        mask = mask_of(value, field, media, folder, where).to_array()
        if not mask.any():
            raise DataError(where, expected="a region with a pixel", found="none")
        return np.asarray(mask, dtype=np.uint8) * np.uint8(255)
    if are_points(value):
        raise DataError(
            where,
            expected="a region in which points count: boxes, polygons or a mask",
            found="points",
            fix="A point does not say how far from it another one is right: write the boxes or "
            'masks of the objects. form = "count" asks for the number of points.',
        )
    width, height = media.size
    levels = np.zeros((height, width), dtype=np.uint8)
    for box in boxes_of(value, field, media, where):
        left, top = (max(round(side), 0) for side in (box.left, box.top))
        levels[top : max(round(box.bottom), top + 1), left : max(round(box.right), left + 1)] = 255
    return levels

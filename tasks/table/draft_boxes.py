"""Guess the order of the numbers of boxes, and their unit, from the boxes and their images."""

import re
from collections.abc import Collection, Sequence
from math import inf

from harness.tasks.table.description import PARTS
from harness.tasks.table.draft_values import Size, Truth, is_row, rows_of
from harness.tasks.table.truth import LARGEST_FRACTION, named_sides
from harness.tasks.table.unread_fields import stated_order

ORDERS = ("xyxy", "xywh", "cxcywh")
PADDED = (
    "fractions of the image, or of the square that LLaVA pads it to? Those are not read: x in "
    "pixels is x * max(w, h) - (max(w, h) - w) / 2, y alike"
)
"""Doubt about boxes in fractions that may be of padded squares, as in LLaVA's mix665k."""
Y_FIRST = re.compile(r"(?:.*[._])?box_2d|(?:.*[._])?rois?|.*(?:yxyx|_yx)", re.IGNORECASE)
"""Names of fields of boxes that programs write with y first."""
UNITS_LIKE_PIXELS = ("percent", "thousandths")
"""Units whose numbers may also be pixels."""
EDGE = 0.01
"""Part of a side, at most one pixel, by which a box may leave its image."""


def truth_of_boxes(
    field: str, values: Sequence[object], sizes: Sequence[Size], modes: Collection[str]
) -> Truth | None:
    """Return the first order and unit that fit all boxes; None if not all values are boxes.

    Args:
        field: Name of the field of the boxes.
        values: The field's values.
        sizes: Width and height of each value's image; None where they are not known.
        modes: Orders and units of boxes by fields such as `bbox_mode`.
    """
    orders, listed = _of_sides(values)
    rows = [
        (row, size) for value, size in zip(listed, sizes, strict=True) for row in rows_of(value)
    ]
    if not rows or not all(is_row(row, 4) for row, _ in rows):
        return None
    largest = max(max(row) for row, _ in rows)
    (mode,) = modes if len(modes) == 1 else ("",)
    units = ["relative"] if largest <= LARGEST_FRACTION else ["pixels"]
    if largest > LARGEST_FRACTION:
        units += [name for name, parts in PARTS.items() if largest <= parts]
    if stated := re.search("_(ABS|REL)$", mode.upper()):
        units = ["pixels" if stated[1] == "ABS" else "relative"]
    orders = [order] if (order := stated_order(mode)) else orders
    allowed = _orders_and_units(rows, orders, units)
    keys: dict[str, object]
    if not allowed:
        doubt = f"no order of the numbers ({', '.join(ORDERS)}) fits all images"
        if _orders_and_units([([y, x, b, a], size) for (x, y, a, b), size in rows], orders, units):
            doubt += f". All fit with y first: {_with_x_first(field, values)}"
        keys = {"written": orders[0], "coordinates": units[0]}
        return Truth("boxes", keys, {"written": doubt})
    order, unit = allowed[0]
    keys = {"written": order, "coordinates": unit}
    doubts = {}
    for key, candidates in zip(keys, zip(*allowed, strict=True), strict=True):
        if len(set(candidates)) > 1:
            *others, last = dict.fromkeys(candidates)
            doubts[key] = f"{', '.join(others)} and {last} fit the values"
    if not stated and unit in UNITS_LIKE_PIXELS:
        doubts.setdefault("coordinates", "or pixels, with the numbers in another order?")
    if not mode and (unit != "pixels" or Y_FIRST.fullmatch(field)):
        before = f"{doubts['written']}, " if "written" in doubts else ""
        doubts["written"] = f"{before}or is y first, as in Gemini's and TensorFlow's boxes? "
        doubts["written"] += _with_x_first(field, values)
    return Truth("boxes", keys, doubts)


def _with_x_first(field: str, values: Sequence[object]) -> str:
    """Return how to read boxes that are written with y first."""
    if any(isinstance(value, list) and is_row(value, 4) for value in values):
        return (
            f'field = "[{{{field}.1}}, {{{field}.0}}, {{{field}.3}}, {{{field}.2}}]" swaps x and y'
        )
    return "Write x before y"


def are_in_padded(values: Sequence[object], sizes: Sequence[Size]) -> bool:
    """Return True if boxes in fractions all lie on the image in the middle of a padded square.

    It is False if all images are square, or if not all sizes are known.
    """
    shares = [(size[0] / max(size), size[1] / max(size)) for size in sizes if size]
    inside = [
        (1 - share) / 2 - EDGE <= number <= (1 + share) / 2 + EDGE
        for value, sides in zip(values, shares, strict=False)
        for row in rows_of(value)
        for number, share in zip(row, (*sides, *sides), strict=False)
    ]
    return len(shares) == len(sizes) and any(w != h for w, h in filter(None, sizes)) and all(inside)


def _of_sides(values: Sequence[object]) -> tuple[Sequence[str], Sequence[object]]:
    """Return (orders, boxes as lists) if all boxes are objects whose names fit them.

    All orders, and the values as they are, if there are others.
    """
    listed = [value if isinstance(value, list) else [value] for value in values]
    for written in ORDERS:
        boxes = [[named_sides(box, written) for box in members] for members in listed]
        if boxes and all(map(all, boxes)):
            return ("xywh", "cxcywh") if written == "xywh" else (written,), boxes
    return ORDERS, values


def _orders_and_units(
    rows: Sequence[tuple[Sequence[float], Size]], orders: Sequence[str], units: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the pairs of an order and a unit by which all boxes lie in their images."""
    return [
        (order, unit)
        for unit in units
        for order in orders
        if all(_fits(row, order, _bounds(unit, size)) for row, size in rows)
    ]


def _fits(row: Sequence[float], order: str, bounds: tuple[float, float]) -> bool:
    """Return True if four numbers in this order are a box with an area within the bounds."""
    left, top, third, fourth = row
    if order == "xywh":
        third, fourth = left + third, top + fourth
    elif order == "cxcywh":
        left, third = left - third / 2, left + third / 2
        top, fourth = top - fourth / 2, top + fourth / 2
    slack = min(1.0, EDGE * min(bounds))
    inside = min(left, top) >= -slack and third <= bounds[0] + slack and fourth <= bounds[1] + slack
    return inside and third > left and fourth > top


def _bounds(unit: str, size: Size) -> tuple[float, float]:
    """Return the largest x and y in a unit of coordinates."""
    if unit == "pixels":
        return size or (inf, inf)
    return PARTS[unit], PARTS[unit]

"""Evidence of the order of boxes and intervals that cannot be read as documented.

A box whose right side is left of its left one, or an interval that ends before it begins, is no
answer. Where all numbers of the file fit in another order, that is the likely one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from harness.coordinates import in_pixels
from harness.errors import DataError, ParseError
from harness.foreign_lines import rewrite
from harness.interchange.rows import Row
from harness.responses import finite_numbers
from harness.types import AnswerForm, Query

Numbers: TypeAlias = Sequence[float]
SLACK = 1.0
"""Pixels beyond an image, or seconds beyond a video, that are rounding."""
CENTRE = "[centre x, centre y, width, height]"
TO_CORNERS = {
    "[left, top, width, height]": "[.[0], .[1], .[0] + .[2], .[1] + .[3]]",
    CENTRE: "[.[0] - .[2] / 2, .[1] - .[3] / 2, .[0] + .[2] / 2, .[1] + .[3] / 2]",
}
"""jq's programs that make corners of boxes in another order, by the name of that order."""
READ: Mapping[str, Callable[[Numbers], Numbers]] = {
    "[left, top, width, height]": lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3]),
    CENTRE: lambda b: around(*b),
}
"""Functions that make these corners."""


def around(x: float, y: float, width: float, height: float) -> Numbers:
    """Return the corners of a box around a point."""
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def box_command(order: str, name: str) -> str:
    """Return what to type to make corners of the boxes of file `name`; null frames stay null."""
    return rewrite("boxes", f"map(if . then {TO_CORNERS[order]} else . end)", name)


def refuse_misread(rows: Sequence[tuple[Row, Query]]) -> None:
    """Raise DataError if a row cannot be read, and all could in another order.

    Args:
        rows: The file's rows of boxes and answers, and their questions about intact media.
    """
    _refuse_sizes([(row, query) for row, query in rows if row.kind == "boxes"])
    is_interval = [
        (row, query)
        for row, query in rows
        if row.kind == "answer" and query.form is AnswerForm.INTERVAL
    ]
    _refuse_spans(is_interval)


def _refuse_sizes(rows: Sequence[tuple[Row, Query]]) -> None:
    """Raise DataError if boxes have no area as corners, and all fit as a corner and a size."""
    boxes = [(box, row, query) for row, query in rows for box in _lists(row.value, 4)]
    empty = [row for box, row, _ in boxes if box[2] <= box[0] or box[3] <= box[1]]
    orders = [name for name in READ if all(_fits_as(name, *place) for place in boxes)]
    if not empty or not orders:
        return
    first = empty[0]
    commands = [f"If all are {name}: {box_command(name, first.file)}." for name in orders]
    raise DataError(
        f"{first.where} (id {first.id!r}): box",
        expected="left < right and top < bottom",
        found=f"{len(empty)} of {len(boxes)} boxes in the file without area, while all fit as "
        f"{' and as '.join(orders)}",
        fix=" ".join(commands),
    )


def _fits_as(order: str, box: Numbers, row: Row, query: Query) -> bool:
    """Return True if a box in another order has an area and fits its image."""
    corners = READ[order](box)
    left, top, right, bottom = in_pixels(corners, row.written.coordinates, query.size)
    inside = max(-left, -top, right - query.size[0], bottom - query.size[1]) <= SLACK
    return inside and min(box[2:]) > 0


def _refuse_spans(rows: Sequence[tuple[Row, Query]]) -> None:
    """Raise DataError if intervals end before they begin, and all fit in another order."""
    spans = [
        (first, second, max(query.media[0].times(), default=0.0), row)
        for row, query in rows
        for first, second in _lists([row.value], 2)
    ]
    turned = [row for first, second, _, row in spans if second < first]
    if not turned:
        return
    file = turned[0].file
    fixes = []
    if all(first >= second for first, second, _, _ in spans):
        fixes.append(f"If they are [end, start]: {rewrite('answer', '[.[1], .[0]]', file)}.")
    if all(first + second <= end + SLACK for first, second, end, _ in spans):
        program = "[.[0], .[0] + .[1]]"
        fixes.append(f"If they are [start, duration]: {rewrite('answer', program, file)}.")
    if fixes:
        raise DataError(
            f"{turned[0].where} (id {turned[0].id!r}): interval",
            expected="[start, end]",
            found=f"a smaller second number in {len(turned)} of {len(spans)} intervals of the file",
            fix=" ".join(fixes),
        )


def _lists(value: object, length: int) -> Iterator[tuple[float, ...]]:
    """Yield the lists of so many numbers in a list."""
    for item in value if isinstance(value, list) else ():
        try:
            yield finite_numbers(item, length, "")
        except ParseError:  # which is raised where it is scored
            continue

"""Recognise the order of a file's boxes and intervals if some are impossible as documented.

A box whose right side is left of its left side, or an interval that ends before it begins, cannot
be an answer. If all numbers of the file fit in another order, the file is refused with a command
that converts that order. Readers of predictions call `refuse_misread` with all rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from harness.coordinates import in_pixels
from harness.errors import DataError, ParseError
from harness.foreign_lines import rewrite
from harness.interchange.rows import Row
from harness.layout.places import MAX_FRACTION, is_fraction, video_length
from harness.responses import finite_numbers
from harness.types import AnswerForm, Query

Numbers: TypeAlias = Sequence[float]
SLACK = 1.0
"""Pixels beyond an image, or seconds beyond a video, that count as rounding."""
CENTRE = "[centre x, centre y, width, height]"
TO_CORNERS = {
    "[left, top, width, height]": "[.[0], .[1], .[0] + .[2], .[1] + .[3]]",
    CENTRE: "[.[0] - .[2] / 2, .[1] - .[3] / 2, .[0] + .[2] / 2, .[1] + .[3] / 2]",
}
"""jq programs that convert boxes in another order to corners, by the name of that order."""
READ: Mapping[str, Callable[[Numbers], Numbers]] = {
    "[left, top, width, height]": lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3]),
    CENTRE: lambda b: around(*b),
}
"""Functions for the same conversions as `TO_CORNERS`."""

SPANS: Mapping[str, tuple[str, Callable[[float, float, float], bool]]] = {
    "[end, start]": ("[.[1], .[0]]", lambda a, b, _: a >= b),
    "[start, duration]": ("[.[0], .[0] + .[1]]", lambda a, b, end: a + b <= end),
    "[centre, width]": (
        "[([.[0] - .[1] / 2, 0] | max), .[0] + .[1] / 2]",
        lambda a, b, end: b / 2 - SLACK <= a <= end - b / 2,
    ),
}
"""Other orders of an interval's two numbers: for each a jq program that converts it to
[start, end], and a function that is True if the two numbers are possible in a video of that length
in seconds."""


def around(x: float, y: float, width: float, height: float) -> Numbers:
    """Return (left, top, right, bottom) of a box with its centre at (x, y)."""
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def box_command(order: str, name: str) -> str:
    """Return the command that converts a file's boxes to corners; null frames stay null."""
    return rewrite("boxes", f"map(if . then {TO_CORNERS[order]} else . end)", name)


def refuse_misread(rows: Sequence[tuple[Row, Query]]) -> None:
    """Raise DataError if some row is impossible as documented, and all fit in another order.

    Args:
        rows: The file's rows with boxes or answers, each with its question; the questions' images
            and videos are intact.
    """
    _refuse_sizes([(row, query) for row, query in rows if row.kind == "boxes"])
    is_interval = [
        (row, query)
        for row, query in rows
        if row.kind == "answer" and query.form is AnswerForm.INTERVAL
    ]
    _refuse_spans(is_interval)


def _refuse_sizes(rows: Sequence[tuple[Row, Query]]) -> None:
    """Raise DataError if some boxes have no area as corners, and all fit as corner and size."""
    boxes = [(box, row, query) for row, query in rows for box in _lists(row.value, 4)]
    empty = [row for box, row, _ in boxes if box[2] <= box[0] or box[3] <= box[1]]
    orders = [name for name in READ if all(_fits_as(name, *box_and_row) for box_and_row in boxes)]
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
    """Return True if a box, read in another order, has an area and lies in its image."""
    corners = READ[order](box)
    left, top, right, bottom = in_pixels(corners, row.written.coordinates, query.size)
    inside = max(-left, -top, right - query.size[0], bottom - query.size[1]) <= SLACK
    return inside and min(box[2:]) > 0


def _refuse_spans(rows: Sequence[tuple[Row, Query]]) -> None:
    """Raise DataError if some intervals end before they begin, and all fit in another order."""
    spans = [
        (first, second, video_length(query.media[0].times()), row)
        for row, query in rows
        for first, second in _lists([row.value], 2)
    ]
    turned = [row for first, second, _, row in spans if second < first]
    if not turned:
        return
    file = turned[0].file
    fixes = [
        f"If they are {name}: {rewrite('answer', program, file)}."
        for name, (program, fits) in SPANS.items()
        if all(fits(first, second, length + SLACK) for first, second, length, _ in spans)
    ]
    if all(length > MAX_FRACTION and is_fraction(span) for *span, length, _ in spans):
        fixes.append("They lie where fractions of the video do: multiply those by its length.")
    if fixes:
        raise DataError(
            f"{turned[0].where} (id {turned[0].id!r}): interval",
            expected="[start, end]",
            found=f"a smaller second number in {len(turned)} of {len(spans)} intervals of the file",
            fix=" ".join(fixes),
        )


def _lists(value: object, length: int) -> Iterator[tuple[float, ...]]:
    """Yield the lists of `length` numbers in a value, at any depth of nested lists."""
    for item in value if isinstance(value, list) else ():
        try:
            yield finite_numbers(item, length, "")
        except ParseError:  # which is raised where it is scored
            continue

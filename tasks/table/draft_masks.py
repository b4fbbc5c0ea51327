"""Guess how masks are written, and doubt polygons in percent and with holes."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.tasks.table.cells import polygons_of
from harness.tasks.table.draft_values import Size, Truth, is_row, rows_of

REGION_FIELD = re.compile(
    r"(?:.*[._ ])?(?:b?boxe?s?|bounding_?box(?:es)?|masks?|segmentations?|polygons?|rle(?:_mask)?"
    r"|encoded_?pixels)(?:_2d)?",
    re.IGNORECASE,
)
"""Names of fields that hold boxes or masks."""
PERCENT = (
    "all numbers are at most 100: are they percent of the image's sides? Polygons in percent are "
    "not read: write pixels"
)
"""Doubt about polygons whose numbers are all small."""
HOLES = (
    "some polygons lie in others of their record: they belong to the mask, as in COCO. For holes, "
    "write run-lengths or images"
)
"""Doubt about polygons that lie in others."""
PAIRS = re.compile(r"\d+ \d+(?: \d+ \d+)*")
"""Run-lengths as a text, as Kaggle writes them."""
OF_PAIRS = (
    "pairs of a start and a length, as on Kaggle: `from_pairs` of docs/predictions.md makes a mask "
    "of them, and Rle.from_array(mask).to_json() COCO's run-lengths, which are read"
)
"""Doubt about run-lengths as a text."""
MIN_SIDE = 200
"""Least side of images in pixels whose polygons rarely all lie between 0 and 100."""


def truth_of_masks(field: str, values: Sequence[object], sizes: Sequence[Size]) -> Truth | None:
    """Return how masks are written: as polygons, run-lengths or images; None without masks.

    Args:
        field: Name of the field of the masks.
        values: The field's values.
        sizes: Width and height of each value's image; None where they are not known.
    """
    flat = list(map(polygons_of, values))
    polygons = [row for value in flat for part in _list_members(value) for row in rows_of(part)]
    if polygons and all(len(row) >= 6 and is_row(row, len(row)) for row in polygons):
        doubts = {}
        if flat != [*values]:
            doubts["form"] = "are pairs corners of a polygon, or points?"
        if _may_be_percent(polygons, sizes):
            doubts["written"] = PERCENT
        elif any(
            _has_hole([row for part in _list_members(v) for row in rows_of(part)]) for v in flat
        ):
            doubts["written"] = HOLES
        return Truth("mask", {"written": "coco"}, doubts)
    if values and all(map(_is_run_length, values)):
        return Truth("mask", {"written": "coco"})
    if values and all(map(_is_image, values)):
        return Truth("mask", {"written": "image"})
    is_region = REGION_FIELD.fullmatch(field) and "box" not in field.lower()
    if is_region and all(PAIRS.fullmatch(str(v)) for v in values):
        return Truth("mask", {"written": "coco"}, {"written": OF_PAIRS})
    return None


def _list_members(value: object) -> Iterable[object]:
    """Return the members of a list of lists; any other value as the only one."""
    return value if isinstance(value, list) and rows_of(value) == value else [value]


def _is_run_length(value: object) -> bool:
    """Return True for a mask as COCO's run-length."""
    return isinstance(value, dict) and {"size", "counts"} <= value.keys()


def _is_image(value: object) -> bool:
    """Return True for an image as a table has it: its bytes, or the name of its file."""
    if isinstance(value, dict):
        return "bytes" in value
    return isinstance(value, str) and Path(value).suffix.lower() in (".png", ".jpg", ".bmp")


def _may_be_percent(rows: Iterable[Sequence[float]], sizes: Sequence[Size]) -> bool:
    """Return True if all numbers are at most 100, some above 2, and all images are larger."""
    numbers = [number for row in rows for number in row]
    are_large = all(size is not None and min(size) >= MIN_SIDE for size in sizes)
    return are_large and 2 < max(numbers, default=0) <= 100 and min(numbers) >= 0


def _has_hole(polygons: Sequence[Sequence[float]]) -> bool:
    """Return True if all corners of a polygon lie in another one."""
    pairs = [list(zip(row[::2], row[1::2], strict=False)) for row in polygons]
    return any(
        first is not second and all(_is_inside(corner, second) for corner in first)
        for first in pairs
        for second in pairs
    )


def _is_inside(corner: tuple[float, float], polygon: Sequence[tuple[float, float]]) -> bool:
    """Return True if a ray to the right of a corner crosses an odd number of a polygon's edges."""
    x, y = corner
    edges = zip(polygon, [*polygon[1:], polygon[0]], strict=True)
    crossed = [
        x < x0 + (y - y0) * (x1 - x0) / (y1 - y0)
        for (x0, y0), (x1, y1) in edges
        if (y0 > y) != (y1 > y)
    ]
    return sum(crossed) % 2 == 1

"""Turn polygons of COCO's results into masks, and recognise corners in another unit or order."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pycocotools import mask as coco_masks

from harness.errors import DataError
from harness.foreign_lines import command
from harness.formats.units import Orders, shapes
from harness.layout.places import Numbers, Size, extent, flat_polygons, is_xy_swapped
from harness.masks import Rle

TURN = (
    'map(if .segmentation | type == "array" then .segmentation |= '
    "map(flatten | . as $p | [range(0; length; 2) | $p[. + 1], $p[.]]) else . end)"
)
"""jq program that swaps x and y of all corners."""
Y_FIRST = "[y, x, y, x, …]"


def _turned(polygon: Numbers) -> Numbers:
    """Return a polygon with x and y swapped."""
    return [polygon[index ^ 1] for index in range(len(polygon))]


ORDERS: Orders = {Y_FIRST: _turned}


def check_polygons(
    records: Sequence[tuple[Mapping[str, Any], Size]], path: Path
) -> tuple[str, ...]:
    """Return notes on polygons that leave their images.

    Args:
        records: The file's records, and (width, height) of their images.
        path: The file.

    Raises:
        DataError: as a whole the polygons are in another unit, or fit their images or the boxes of
            their own records only with y first.
    """
    places: list[tuple[Numbers, Size]] = []
    boxed = turned = 0
    for record, size in records:
        given = flat_polygons(record.get("segmentation"))
        polygons = [part for part in given if _is_polygon(part)] if isinstance(given, list) else []
        if not polygons or min(size) <= 0:
            continue
        places += [(polygon, size) for polygon in polygons]
        sides = record.get("bbox")
        if isinstance(sides, list) and len(sides) == 4 and all(map(_is_number, sides)):
            boxed += 1
            turned += is_xy_swapped(sides, extent(polygons))
    swap = command(TURN, path.name)
    thing = f"predictions {path}"
    if 2 * turned > boxed:
        raise DataError(
            f"{thing}: polygons",
            expected="[x, y, x, y, …]",
            found=f"{turned} of {boxed} that fit the box of their own record only as {Y_FIRST}",
            fix=f"{swap} swaps x and y. If boxes have y first, write [left, top, width, height].",
        )
    return tuple(shapes(places, thing, "polygons", ORDERS, len(places), {Y_FIRST: swap}))


def mask_of_polygons(plain: object, size: tuple[int, int], what: str) -> Rle:
    """Return the mask of polygons in an image of (width, height), clipped to it.

    Raises:
        DataError: they are not lists of at least three corners, or far outside the image.
    """
    polygons = flat_polygons(plain)
    assert isinstance(polygons, list), "others are run-lengths"
    for polygon in polygons:
        if (
            not _is_polygon(polygon)
            or len(polygon) % 2
            or not all(-max(size) <= value <= 2 * max(size) for value in polygon)
        ):
            expected = "[x, y, …] of at least three corners within reach of the image"
            raise DataError(what, expected=expected, found=repr(polygon)[:60])
    if polygons and all(0 <= value <= 1 for polygon in polygons for value in polygon):
        raise DataError(
            what,
            expected="corners in pixels",
            found=f"{repr(polygons[0])[:60]}, as fractions of the image",
            fix="Multiply them by the image's width and height.",
        )
    width, height = size
    if not polygons:
        return Rle.empty(height, width)
    encoded = coco_masks.merge(coco_masks.frPyObjects(polygons, height, width))
    return Rle(height, width, encoded["counts"].decode("ascii"))


def _is_polygon(part: object) -> bool:
    return isinstance(part, list) and len(part) >= 6 and all(map(_is_number, part))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

"""Boxes, points and corners beside their image: what no rounding explains.

Predictions and ground truth are held to the same limits.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from harness.errors import DataError

Numbers: TypeAlias = Sequence[float]
"""A box, a point, a polygon or an interval."""
Size: TypeAlias = tuple[float, float]
SLACK = 1.0
"""Pixels beyond its image at which a place counts as leaving it: tools round, and count from 1."""
FAR = 0.1
"""Part of the image's side beyond it that no rounding explains."""
FIRST = 2.0
"""Pixels or seconds within which fractions lie: a corner and a size add up to at most 2."""
FEW_OUTSIDE = 0.25
"""Share of an object's corners that may lie far out, where its image shows a part of it."""
DIFFERENT, ALIKE = 0.5, 0.8
"""IoU below which a box is not an object's, and from which it is."""
SMALLEST = 6
"""Pixels of an image's shorter side, or seconds of a video, in which nobody means the first two."""


def is_fraction(numbers: Numbers) -> bool:
    """Return True if all numbers lie where fractions do."""
    return all(0 <= number <= FIRST for number in numbers)


def beyond(numbers: Numbers, size: Size) -> float:
    """Return by how many pixels a place reaches beyond an image of (width, height)."""
    return max(excess for excess, _ in _excess(numbers, size))


def is_far(numbers: Numbers, size: Size) -> bool:
    """Return True if a place reaches further beyond its image than rounding explains."""
    return any(excess > max(FAR * side, SLACK) for excess, side in _excess(numbers, size))


def _excess(numbers: Numbers, size: Size) -> Iterator[tuple[float, float]]:
    """Yield how far each coordinate reaches beyond an image, and the side that it is along."""
    for place, number in enumerate(numbers):
        side = size[place % 2]
        yield max(-number, number - side), side


def refuse_outside(
    polygons: Sequence[Numbers], size: Size, where: str, *, most: float = FEW_OUTSIDE
) -> None:
    """Raise DataError if the corners of an object are of another unit or size than its image.

    Args:
        polygons: [x, y, x, y, …] of each part.
        size: (width, height) of the image in pixels.
        where: The place of the object, for messages.
        most: Share of the corners that may lie further out than rounding explains.
    """
    corners = [part[start : start + 2] for part in polygons for start in range(0, len(part), 2)]
    if not corners:
        return
    outside = [corner for corner in corners if is_far(corner, size)]
    are_fractions = min(size) >= SMALLEST and all(map(is_fraction, corners))
    if not are_fractions and len(outside) <= most * len(corners):
        return
    raise DataError(
        where,
        expected=f"corners in pixels of its image, {size[0]:g} × {size[1]:g}",
        found="all in the first two pixels, as fractions are"
        if are_fractions
        else f"{len(outside)} of {len(corners)} further out than rounding explains",
        fix="Multiply x by the image's width and y by its height."
        if are_fractions
        else "Was the image resized, or is it another one? Scale the corners with it.",
    )


def fits_otherwise(sides: Numbers, extent: Numbers) -> bool:
    """Return True if [x, y, width, height] contradicts an extent that it fits as two corners.

    >>> fits_otherwise((100, 120, 150, 160), (100, 120, 150, 160))
    True
    >>> fits_otherwise((100, 120, 50, 40), (100, 120, 150, 160))
    False
    """
    x, y, third, fourth = sides
    is_written = _iou((x, y, x + third, y + fourth), extent) >= DIFFERENT
    return not is_written and _iou((x, y, third, fourth), extent) >= ALIKE


def _iou(box: Numbers, other: Numbers) -> float:
    common = 1.0
    areas = [1.0, 1.0]
    for low, high in ((0, 2), (1, 3)):
        common *= max(0.0, min(box[high], other[high]) - max(box[low], other[low]))
        areas = [
            area * max(0.0, place[high] - place[low])
            for area, place in zip(areas, (box, other), strict=True)
        ]
    union = sum(areas) - common
    return common / union if union > 0 else 0.0

"""Recognise boxes, points, polygons or times in another unit, order or size than was expected.

They leave their image or video by more than rounding. Coordinates are in pixels, [x, y] from the
image's top left corner; times are in seconds. Readers of predictions and of annotations use the
same limits.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias, TypeGuard

from harness.errors import DataError

Numbers: TypeAlias = Sequence[float]
"""The numbers of a box, a point, a polygon or an interval."""
Size: TypeAlias = tuple[float, float]
SLACK = 1.0
"""Pixels beyond the image, or seconds after the video, from which a place counts as outside: tools
round, and count from 1."""
FAR_FRACTION = 0.1
"""Excess, as a fraction of the image's side, that rounding does not explain."""
MAX_FRACTION = 2.0
"""Largest number of a box or point in fractions of a side: a corner plus a size is at most 2."""
MAX_SHARE_OUTSIDE = 0.25
"""Share of an object's corners that may lie far outside the image: the image may show a part."""
MAX_IOU_OF_DIFFERENT, MIN_IOU_OF_SAME = 0.5, 0.8
"""IoU below which two boxes are of different objects, and from which they are of the same one."""
MIN_SIDE_FOR_FRACTIONS = 6
"""Shorter side in pixels, or length in seconds, from which answers within the first two pixels or
seconds are fractions."""


def is_fraction(numbers: Numbers) -> bool:
    """Return True if all numbers may be fractions of a side or length (see `MAX_FRACTION`)."""
    return all(0 <= number <= MAX_FRACTION for number in numbers)


def beyond(numbers: Numbers, size: Size) -> float:
    """Return the most pixels by which a place exceeds an image of (width, height); 0 if inside."""
    return max(excess for excess, _ in _excess(numbers, size))


def is_far(numbers: Numbers, size: Size) -> bool:
    """Return True if a place exceeds an image of (width, height) by more than rounding."""
    return any(excess > max(FAR_FRACTION * side, SLACK) for excess, side in _excess(numbers, size))


def _excess(numbers: Numbers, size: Size) -> Iterator[tuple[float, float]]:
    """Yield each coordinate's excess over an image, and the length of its side, in pixels."""
    for axis, number in enumerate(numbers):
        side = size[axis % 2]
        yield max(-number, number - side), side


def video_length(times: Sequence[float]) -> float:
    """Return the length in seconds of a video whose frames have these times, in seconds.

    The last frame is as long as the mean of the others.

    >>> video_length((0.0, 0.5, 1.0, 1.5)), video_length(())
    (2.0, 0.0)
    """
    if len(times) < 2:
        return max(times, default=0.0)
    return times[-1] + (times[-1] - times[0]) / (len(times) - 1)


def rounding_of(length: float) -> float:
    """Return the seconds by which rounding may put a time beyond a video of `length` seconds."""
    return min(SLACK, FAR_FRACTION * length)


def refuse_outside(
    polygons: Sequence[Numbers], size: Size, where: str, *, max_outside: float = MAX_SHARE_OUTSIDE
) -> None:
    """Raise DataError if an object's corners are fractions, or lie outside the image.

    Args:
        polygons: [x, y, x, y, …] of each part.
        size: (width, height) of the image in pixels.
        where: The place of the object, for messages.
        max_outside: Share of the corners that may lie outside the image by more than rounding.
    """
    corners = [part[start : start + 2] for part in polygons for start in range(0, len(part), 2)]
    if not corners:
        return
    outside = [corner for corner in corners if is_far(corner, size)]
    are_fractions = min(size) >= MIN_SIDE_FOR_FRACTIONS and all(map(is_fraction, corners))
    if not are_fractions and len(outside) <= max_outside * len(corners):
        return
    raise DataError(
        where,
        expected=f"corners in pixels of the image, {size[0]:g} × {size[1]:g}",
        found="all in the first two pixels, as fractions are"
        if are_fractions
        else f"{len(outside)} of {len(corners)} outside the image by more than rounding",
        fix="Multiply x by the image's width and y by its height."
        if are_fractions
        else "Was the image resized, or is it another one? Scale the corners with it.",
    )


def refuse_ignored_orientation(places: Sequence[Numbers], size: Size, where: str) -> None:
    """Raise DataError if places were annotated without regard to the image's orientation tag.

    They exceed the image as the tag turns it, and fit the image with width and height swapped.

    Args:
        places: Boxes, or polygons.
        size: (width, height) of the image after the turn, in pixels.
        where: The place of the object, for messages.
    """
    width, height = size
    leaves_image = any(beyond(numbers, size) > SLACK for numbers in places)
    if leaves_image and all(beyond(numbers, (height, width)) <= SLACK for numbers in places):
        raise DataError(
            where,
            expected=f"places in its image, {width:g} × {height:g} as its orientation tag turns it",
            found=f"corners that fit it only unturned, {height:g} × {width:g}",
            fix="Were they drawn without the tag? `jpegtran -copy none` writes the image without "
            "it, as it is stored; else turn the corners.",
        )


def flat_polygons(plain: object) -> object:
    """Return polygons in COCO's form, a list of [x, y, x, y, …]; other data unchanged.

    A polygon may be given as a list of corners [x, y], and a single polygon without the outer list.

    >>> flat_polygons([[1, 2], [3, 4], [5, 6]]), flat_polygons([[[1, 2], [3, 4], [5, 6]]])
    ([[1, 2, 3, 4, 5, 6]], [[1, 2, 3, 4, 5, 6]])
    >>> flat_polygons([[1, 2, 3, 4, 5, 6]])
    [[1, 2, 3, 4, 5, 6]]
    """
    if not isinstance(plain, list) or not plain:
        return plain
    parts = [plain] if _are_corners(plain) else plain
    return [list(chain(*part)) if _are_corners(part) else part for part in parts]


def _are_corners(part: object) -> TypeGuard[list[list[object]]]:
    """Return True for a list of pairs, at least one."""
    return (
        isinstance(part, list)
        and len(part) > 0
        and all(isinstance(corner, list) and len(corner) == 2 for corner in part)
    )


def extent(polygons: Iterable[Numbers]) -> Numbers:
    """Return (left, top, right, bottom) of an object's polygons, in pixels."""
    across = [number for part in polygons for number in part[::2]]
    down = [number for part in polygons for number in part[1::2]]
    return min(across), min(down), max(across), max(down)


def is_xy_swapped(sides: Numbers, bounds: Numbers) -> bool:
    """Return True if [x, y, width, height] matches an extent only after its x and y are swapped.

    >>> is_xy_swapped((100, 20, 50, 40), (20, 100, 60, 150))
    True
    """
    x, y, width, height = sides
    box, (left, top, right, bottom) = (x, y, x + width, y + height), bounds
    return (
        _iou(box, bounds) < MAX_IOU_OF_DIFFERENT
        and _iou(box, (top, left, bottom, right)) >= MIN_IOU_OF_SAME
    )


def is_written_as_corners(sides: Numbers, bounds: Numbers) -> bool:
    """Return True if [x, y, width, height] matches an extent only if read as two corners.

    >>> is_written_as_corners((100, 120, 150, 160), (100, 120, 150, 160))
    True
    >>> is_written_as_corners((100, 120, 50, 40), (100, 120, 150, 160))
    False
    """
    x, y, third, fourth = sides
    fits_as_sides = _iou((x, y, x + third, y + fourth), bounds) >= MAX_IOU_OF_DIFFERENT
    return not fits_as_sides and _iou((x, y, third, fourth), bounds) >= MIN_IOU_OF_SAME


def _iou(box: Numbers, other: Numbers) -> float:
    """Return the IoU of two boxes (left, top, right, bottom); 0 if both are empty."""
    intersection = box_area = other_area = 1.0
    for low, high in ((0, 2), (1, 3)):  # along x, along y
        intersection *= max(0.0, min(box[high], other[high]) - max(box[low], other[low]))
        box_area *= max(0.0, box[high] - box[low])
        other_area *= max(0.0, other[high] - other[low])
    union = box_area + other_area - intersection
    return intersection / union if union > 0 else 0.0

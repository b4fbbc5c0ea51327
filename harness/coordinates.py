"""Coordinate frames of the boxes and points in responses, and their conversion to pixels.

A backend names the frame of its network (`Chat.coordinates`); readers of responses convert.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

Coordinates: TypeAlias = Literal[
    "pixels",
    "pixels_yx",
    "normalized_1",
    "normalized_1_yx",
    "normalized_100",
    "normalized_100_yx",
    "normalized_999",
    "normalized_999_yx",
    "normalized_1000",
    "normalized_1000_yx",
    "normalized_1024",
    "normalized_1024_yx",
]
"""Meaning of the numbers in a response: pixels of the image as the network sees it (its canvas), or
shares of each side, from 0 to 1, 100, 999, 1000 or 1024. A point is (x, y) and a box
(x1, y1, x2, y2); with `_yx`, (y, x) and (y1, x1, y2, x2)."""


def normalized_to(coordinates: Coordinates) -> int | None:
    """Return the number that stands for a whole side, such as 1000; None: numbers are pixels.

    >>> normalized_to("normalized_100_yx"), normalized_to("pixels")
    (100, None)
    """
    unit, _, side = coordinates.removesuffix("_yx").partition("_")
    return int(side) if unit == "normalized" else None


def in_pixels(
    numbers: Sequence[float], coordinates: Coordinates, size: tuple[int, int]
) -> tuple[float, ...]:
    """Return a point or box in pixels, x first, of an image of (width, height).

    >>> in_pixels((250, 500, 750, 1000), "normalized_1000_yx", (640, 480))
    (320.0, 120.0, 640.0, 360.0)

    Args:
        numbers: A point (two numbers) or a box (four), in the order and unit of `coordinates`.
        coordinates: Their meaning; "pixels" are taken as those of an image of `size`.
        size: The image's (width, height).
    """
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    if coordinates.endswith("_yx"):
        pairs = [(x, y) for y, x in pairs]
    side = normalized_to(coordinates)
    if side is not None:
        pairs = [(x * size[0] / side, y * size[1] / side) for x, y in pairs]
    return tuple(number for pair in pairs for number in pair)

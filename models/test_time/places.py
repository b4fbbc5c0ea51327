"""Crops and mirror images of an image for MEMO, and the coordinates of a response in them.

The same answer has other coordinates in a crop or a mirror image. Only the numbers are replaced in
the text of the response, so that the tokens around them stay the same.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from PIL import Image

from harness.media import Frame

COORDINATE_LIST = re.compile(r'"(?:bbox_2d|point_2d)"\s*:\s*\[([^\[\]]*)\]')
"""Matches the list of a box's or a point's coordinates in VisionReasoner's grammar."""
NUMBER = re.compile(r"-?\d+(?:\.(\d+))?")  # the group holds the decimals
SIDES = re.compile(r"left|right|clockwise", re.IGNORECASE)
"""Words whose meaning changes in a mirror image."""


@dataclass(frozen=True, slots=True)
class Part:
    """A rectangle of an image, in shares of its width and height; it may be mirrored."""

    left: float = 0.0
    top: float = 0.0
    right: float = 1.0
    bottom: float = 1.0
    mirrored: bool = False

    def apply(self, frame: Frame) -> Frame:
        """Return this part of a frame (height × width × 3 bytes), enlarged to the frame's size."""
        if self == Part():
            return frame
        height, width = frame.shape[:2]
        box = (self.left * width, self.top * height, self.right * width, self.bottom * height)
        crop = Image.fromarray(frame).resize((width, height), Image.Resampling.BILINEAR, box=box)
        pixels: Frame = np.asarray(crop)
        return np.ascontiguousarray(pixels[:, ::-1]) if self.mirrored else pixels

    def across(self, x: float, width: float) -> float:
        """Return the view's x of an image's x; the image and the view are both `width` wide."""
        share = (x / width - self.left) / (self.right - self.left)
        return width * (1 - share if self.mirrored else share)

    def down(self, y: float, height: float) -> float:
        """Return the view's y of an image's y; the image and the view are both `height` high."""
        return height * (y / height - self.top) / (self.bottom - self.top)

    def moved(self, values: list[float], canvas: tuple[int, int]) -> list[float]:
        """Return the view's coordinates of a box (x, y, x, y) or a point (x, y).

        The image and the view both have the size `canvas` (width, height).
        """
        xs = [self.across(x, canvas[0]) for x in values[::2]]
        ys = [self.down(y, canvas[1]) for y in values[1::2]]
        pairs = zip(sorted(xs), ys, strict=True)  # a mirror image swaps left and right edges
        return [value for pair in pairs for value in pair]


def parts(
    number: int,
    rng: np.random.Generator,
    *,
    around: tuple[float, float, float, float],
    mirror: bool,
) -> list[Part]:
    """Draw random parts that contain a box.

    Each side of a part cuts off at most half of the margin between the box and the image's edge.

    Args:
        number: Number of parts.
        rng: Source of random numbers.
        around: Left, top, right and bottom edge of the box, in shares of the image.
        mirror: Mirror each part with probability 1/2.
    """
    left, top, right, bottom = (min(1.0, max(0.0, edge)) for edge in around)
    draws = rng.uniform(0, 0.5, (number, 4))
    coins = rng.random(number) < 0.5
    margins = np.array([left, top, 1 - right, 1 - bottom])
    return [
        Part(cut_left, cut_top, 1 - cut_right, 1 - cut_bottom, bool(mirror and coin))
        for (cut_left, cut_top, cut_right, cut_bottom), coin in zip(
            (draws * margins).tolist(), coins, strict=True
        )
    ]


def pieces(response: str, part: Part, canvas: tuple[int, int]) -> list[str]:
    """Return the response that is correct for a part, split into text, number, text, …, text.

    Args:
        response: Correct for the whole image, in VisionReasoner's grammar.
        part: The part that the view shows.
        canvas: (width, height) of the frame that coordinates are in, both before and after.
    """
    piece_list, end = list[str](), 0
    for start, stop, number_text in _moved_numbers(response, part, canvas):
        piece_list += [response[end:start], number_text]
        end = stop
    return [*piece_list, response[end:]]


def _moved_numbers(
    response: str, part: Part, canvas: tuple[int, int]
) -> Iterator[tuple[int, int, str]]:
    """Yield the text span (start, end) of each coordinate, and its number in the part.

    The number has as many decimals as it had in the response.
    """
    for match in COORDINATE_LIST.finditer(response):
        numbers = list(NUMBER.finditer(response, match.start(1), match.end(1)))
        if len(numbers) % 2:
            continue
        values = part.moved([float(number[0]) for number in numbers], canvas)
        sides = canvas * (len(values) // 2)  # width, height, width, height, …
        for number, value, side in zip(numbers, values, sides, strict=True):
            inside = min(float(side), max(0.0, value))
            yield number.start(), number.end(), f"{inside:.{len(number[1] or '')}f}"

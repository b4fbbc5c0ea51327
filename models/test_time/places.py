"""Parts of an image that a view shows, and a response's coordinates in such a view.

A crop or a mirror image moves what the coordinates name: the same answer has other numbers there.
They are replaced as texts, so that everything around them stays token by token as it was.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from PIL import Image

from harness.media import Frame

LISTS = re.compile(r'"(?:bbox_2d|point_2d)"\s*:\s*\[([^\[\]]*)\]')
"""Coordinates of an object in VisionReasoner's grammar."""
NUMBER = re.compile(r"-?\d+(?:\.(\d+))?")
SIDES = re.compile(r"left|right|clockwise", re.IGNORECASE)
"""Words whose meaning changes in a mirror image."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of an image, in shares of its width and height, and whether it is mirrored."""

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
        shown = Image.fromarray(frame).resize((width, height), Image.Resampling.BILINEAR, box=box)
        seen: Frame = np.asarray(shown)
        return np.ascontiguousarray(seen[:, ::-1]) if self.mirrored else seen

    def across(self, x: float, width: float) -> float:
        """Return where a place is in the view, from its left edge; `width`: of both frames."""
        moved = (x / width - self.left) / (self.right - self.left)
        return width * (1 - moved if self.mirrored else moved)

    def down(self, y: float, height: float) -> float:
        """Return where a place is in the view, from its top edge; `height`: of both frames."""
        return height * (y / height - self.top) / (self.bottom - self.top)

    def moved(self, values: list[float], canvas: tuple[int, int]) -> list[float]:
        """Return a box's edges, or a point, in the view; both frames are `canvas`."""
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
    """Draw parts that hold a box: each side is cut by up to half of what lies beyond it.

    Args:
        number: Of parts.
        rng: Source of random numbers.
        around: Left, top, right and bottom edge of the box, in shares of the image.
        mirror: Mirror half of them.
    """
    left, top, right, bottom = (min(1.0, max(0.0, edge)) for edge in around)
    draws = rng.uniform(0, 0.5, (number, 4))
    coins = rng.random(number) < 0.5
    return [
        Part(a * left, b * top, 1 - c * (1 - right), 1 - d * (1 - bottom), bool(mirror and coin))
        for (a, b, c, d), coin in zip(draws.tolist(), coins, strict=True)
    ]


def pieces(response: str, part: Part, canvas: tuple[int, int]) -> list[str]:
    """Return a response as it is correct for a part: text, number, text, …, number, text.

    Args:
        response: Of the whole image, in VisionReasoner's grammar.
        part: What the view shows.
        canvas: (width, height) of the frame that the numbers are in, of the image and of the view.
    """
    texts, end = list[str](), 0
    for start, stop, written in _moved_numbers(response, part, canvas):
        texts += [response[end:start], written]
        end = stop
    return [*texts, response[end:]]


def _moved_numbers(
    response: str, part: Part, canvas: tuple[int, int]
) -> Iterator[tuple[int, int, str]]:
    """Yield where each coordinate stands, and what it is in a part, as precise as it was."""
    for match in LISTS.finditer(response):
        numbers = list(NUMBER.finditer(response, match.start(1), match.end(1)))
        if len(numbers) % 2:
            continue
        values = part.moved([float(number[0]) for number in numbers], canvas)
        for number, value, side in zip(numbers, values, canvas * (len(values) // 2), strict=True):
            inside = min(float(side), max(0.0, value))
            yield number.start(), number.end(), f"{inside:.{len(number[1] or '')}f}"

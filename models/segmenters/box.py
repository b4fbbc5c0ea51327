"""The prompt's rectangle as the mask: the baseline of segmenters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.masks import BoolArray
from harness.media import Frame
from harness.model import ObjectPrompt, Segmenter
from harness.types import Box, Point


class Rectangle(NamedTuple):
    """Whole pixels of an image, at least one; `right` and `bottom` are exclusive."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Columns."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Rows."""
        return self.bottom - self.top

    @property
    def slices(self) -> tuple[slice, slice]:
        """The rectangle as an index of a height × width array."""
        return slice(self.top, self.bottom), slice(self.left, self.right)


@dataclass(frozen=True, slots=True)
class BoxSegmenter(Segmenter):
    """Fills the prompt's box, or without a box the rectangle that its positive points span.

    A prompt that names no place in the image gets an empty mask: nothing, a phrase alone, or a
    box that lies outside. Negative points are not used.
    """

    name = "box"

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """One boolean mask (height × width of `image`) a prompt."""
        return [self._fill(image, prompt) for prompt in prompts]

    def _fill(self, image: Frame, prompt: ObjectPrompt) -> BoolArray:
        height, width = image.shape[:2]
        mask = np.zeros((height, width), dtype=np.bool_)
        box = prompt.box if prompt.box is not None else box_around_points(prompt.positive)
        region = None if box is None else rectangle(box, (width, height))
        if region is not None:
            mask[region.slices] = True
        return mask


def box() -> BoxSegmenter:
    """The rectangle of the box."""
    return BoxSegmenter()


def rectangle(box: Box, size: tuple[int, int]) -> Rectangle | None:
    """The pixels whose centres lie in `box`, clipped to an image of (width, height).

    Swapped edges are put in order. None where no pixel is left: the box lies outside, is thinner
    than the distance of two centres and between them, or has a coordinate that is no number.

    >>> rectangle(Box(-5, 2, 3.6, 99), (8, 8))
    Rectangle(left=0, top=2, right=4, bottom=8)
    """
    if any(math.isnan(edge) for edge in box):
        return None
    left, right = sorted((_edge(box.left, size[0]), _edge(box.right, size[0])))
    top, bottom = sorted((_edge(box.top, size[1]), _edge(box.bottom, size[1])))
    if left == right or top == bottom:
        return None
    return Rectangle(left, top, right, bottom)


def box_around_points(points: Sequence[Point]) -> Box | None:
    """The smallest box that holds the pixels under all points; None without points."""
    known = [point for point in points if math.isfinite(point.x) and math.isfinite(point.y)]
    if not known:
        return None
    x, y = [point.x for point in known], [point.y for point in known]
    return Box(
        math.floor(min(x)), math.floor(min(y)), math.floor(max(x)) + 1, math.floor(max(y)) + 1
    )


def _edge(coordinate: float, length: int) -> int:
    """The first pixel whose centre is not before the edge, from 0 to `length`."""
    return math.ceil(min(max(coordinate, 0.0), float(length)) - 0.5)

"""Convert coordinates between a network's canvas and the original image; only this module does.

The numbers of a response are in a canvas: pixels of the image that the network was given
(Qwen2.5-VL), or shares of each side (Qwen3-VL: of 1000). Both directions round as the official
VisionReasoner code does, `int(v * scale + 0.5)`, with one scale for each side.

Boxes of a canvas are read as edges (right and bottom exclusive), which is what the official
evaluation does with them: it rescales the four numbers and neither segmenter nor IoU adds a pixel.
VisionReasoner's *training* boxes come from the extremes of mask pixels (inclusive), so that its
boxes tend to be one canvas pixel short at the right and bottom; nothing here makes up for that.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from harness.coordinates import Coordinates, normalized_to
from harness.errors import ModelError
from harness.models.grammar import Item
from harness.types import Box, Point

COORDINATES: Mapping[str, Coordinates] = {
    "qwen2_vl": "normalized_1000",
    "qwen2_5_vl": "pixels",
    "qwen3_vl": "normalized_1000",
    "qwen3_vl_moe": "normalized_1000",
    "qwen3_5": "normalized_1000",
    "qwen3_5_moe": "normalized_1000",
    "qwen2": "pixels",
    "qwen3": "pixels",
    "llama": "pixels",
}
"""Meaning of the numbers in responses, by the `model_type` of a checkpoint. A text-only network
sees no image: it repeats numbers of its prompt, which are pixels."""


def declared_coordinates(model_type: str) -> Coordinates:
    """Return the meaning of the numbers in an architecture's responses.

    Raises:
        ModelError: the architecture is not in `COORDINATES`; its meaning is never guessed.
    """
    if model_type not in COORDINATES:
        raise ModelError(
            f"coordinates of a {model_type} checkpoint",
            expected=f"one of {', '.join(COORDINATES)}",
            found=model_type,
            fix="Say what its numbers mean, such as coordinates=pixels or "
            "coordinates=normalized_1000.",
        )
    return COORDINATES[model_type]


STEPS = {1: 1000, 100: 1000, 999: 999, 1000: 1000, 1024: 1024}
"""Steps into which a side is divided when numbers are normalized to the key: numbers from 0 to 1
are written with three decimals, percents with one, so that no grammar is much coarser."""


@dataclass(frozen=True, slots=True)
class Canvas:
    """A canvas of `size` (width, height) steps over an image of `image` (width, height) pixels.

    Going to the canvas and back moves no coordinate by more than one step and half an image pixel;
    whole boxes of an image that is not larger than its canvas come back exactly.
    """

    size: tuple[int, int]
    image: tuple[int, int]
    parts: int = 1
    """Steps in one unit of a response's numbers: 10 for percents with one decimal."""
    y_first: bool = False
    """True if the response writes y before x."""
    is_shares: bool = False
    """True if the numbers are shares of each side; pixels otherwise."""

    @classmethod
    def for_image(
        cls, coordinates: Coordinates, image: tuple[int, int], seen: Callable[[], tuple[int, int]]
    ) -> Self:
        """Return the canvas of numbers with this meaning.

        Args:
            coordinates: Meaning of the numbers.
            image: (width, height) of the original image, in pixels.
            seen: Returns the (width, height) of the image as the network sees it; called only if
                the numbers are pixels.
        """
        side, y_first = normalized_to(coordinates), coordinates.endswith("_yx")
        if side is None:
            return cls(seen(), image, y_first=y_first)
        steps = STEPS[side]
        return cls((steps, steps), image, steps // side, y_first, is_shares=True)

    @property
    def extent(self) -> tuple[int, int]:
        """(width, height) of the whole image in a response's numbers: (100, 100) for percents."""
        return self.size[0] // self.parts, self.size[1] // self.parts

    def to_image(self, item: Item) -> Item:
        """Convert an object from canvas numbers to whole pixels of the image.

        Coordinates are clipped to the image; a box is at least one pixel wide and high.
        """
        # image pixels in one unit of the response, horizontally and vertically
        across = self.image[0] * self.parts / self.size[0]
        down = self.image[1] * self.parts / self.size[1]

        def convert_box(box: Box) -> Box:
            return _box_of_spans(
                _pixel_span(box.left, box.right, across, self.image[0]),
                _pixel_span(box.top, box.bottom, down, self.image[1]),
            )

        def convert_point(point: Point) -> Point:
            return _scaled_point(point, (across, down), self.image)

        return _map_item(self.x_first(item), convert_box, convert_point)

    def count_outside(self, item: Item) -> int:
        """Return the number of coordinates beyond the canvas, which `to_image` clips.

        >>> canvas = Canvas((1000, 1000), (640, 480))
        >>> canvas.count_outside(Item(box=Box(-1, 0, 1000, 1200)))
        2
        """
        shapes = (item.box, item.point, item.negative, item.second)
        numbers = [number for shape in shapes for number in shape or ()]  # x, y, x, y, …
        across, down = (side / self.parts for side in self.size)
        limits = (down, across) if self.y_first else (across, down)
        return sum(not 0 <= number <= limits[index % 2] for index, number in enumerate(numbers))

    def x_first(self, item: Item) -> Item:
        """Return an object with x before y, whatever the order in the response was."""
        return _exchange_axes(item) if self.y_first else item

    def to_canvas(self, item: Item) -> Item:
        """Convert an object from pixels of the image to the numbers of a response.

        Numbers are whole steps, clipped to the canvas; a box is at least one step wide and high.
        """
        # image pixels in one step of the canvas
        across, down = self.image[0] / self.size[0], self.image[1] / self.size[1]

        def convert_box(box: Box) -> Box:
            edges = _box_of_spans(
                _step_span(box.left / across, box.right / across, self.size[0]),
                _step_span(box.top / down, box.bottom / down, self.size[1]),
            )
            return Box(*(edge / self.parts for edge in edges))

        def convert_point(point: Point) -> Point:
            x, y = _scaled_point(point, (1 / across, 1 / down), self.size)
            return Point(x / self.parts, y / self.parts)

        converted = _map_item(item, convert_box, convert_point)
        return _exchange_axes(converted) if self.y_first else converted


def _map_item(item: Item, box: Callable[[Box], Box], point: Callable[[Point], Point]) -> Item:
    """Return an object with `box` applied to its box and `point` to its points, if it has them."""
    return item._replace(
        box=item.box and box(item.box),
        point=item.point and point(item.point),
        negative=item.negative and point(item.negative),
        second=item.second and point(item.second),
    )


def _exchange_axes(item: Item) -> Item:
    """Return an object with x and y exchanged; applied twice, it changes nothing."""
    return _map_item(
        item,
        lambda box: Box(box.top, box.left, box.bottom, box.right),
        lambda point: Point(point.y, point.x),
    )


def _box_of_spans(across: tuple[int, int], down: tuple[int, int]) -> Box:
    """Return the box with edges (left, right) and (top, bottom)."""
    return Box(float(across[0]), float(down[0]), float(across[1]), float(down[1]))


def _scaled_point(point: Point, scales: tuple[float, float], limits: tuple[int, int]) -> Point:
    """Return a point times (x scale, y scale), rounded and clipped to a (width, height)."""
    x = _clip(_scale(point.x, scales[0]), 0, limits[0] - 1)
    y = _clip(_scale(point.y, scales[1]), 0, limits[1] - 1)
    return Point(float(x), float(y))


def _scale(value: float, scale: float) -> int:
    """Scale and round half up, as the official code does."""
    return math.floor(value * scale + 0.5)


def _clip(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def _pixel_span(low: float, high: float, scale: float, limit: int) -> tuple[int, int]:
    """Scale two edges of a box to pixels in 0 … limit, at least one pixel apart."""
    start = _clip(_scale(low, scale), 0, limit - 1)
    return start, _clip(_scale(high, scale), start + 1, limit)


def _step_span(low: float, high: float, limit: int) -> tuple[int, int]:
    """Round two edges of a box to steps in 0 … limit, at least one step apart."""
    start, end = (_clip(_scale(edge, 1.0), 0, limit) for edge in (low, high))
    if start < end:
        return start, end
    start = _clip(math.floor((low + high) / 2), 0, limit - 1)  # the step with the box's centre
    return start, start + 1


def smart_resize(
    size: tuple[int, int], *, factor: int, min_pixels: int, max_pixels: int
) -> tuple[int, int]:
    """Return (width, height) to which Qwen's processors bring an image of `size` (width, height).

    Both sides become multiples of `factor` (patch size × merge size), the area (pixels) is brought
    between the two limits, and the aspect ratio is kept as far as that allows.
    """
    return _resize(size, 1, 1, factor, (min_pixels, max_pixels))


def clip_smart_resize(
    size: tuple[int, int],
    *,
    frames: int,
    patch_frames: int,
    factor: int,
    min_pixels: int,
    max_pixels: int,
) -> tuple[int, int]:
    """Return the (width, height) of a frame by Qwen3-VL's rule for videos.

    As `smart_resize`, but the two limits are pixels of all `frames` together. The number of frames
    is first rounded to whole temporal patches of `patch_frames`, and a frame whose shorter side is
    below `factor` is enlarged.
    """
    width, height = size
    if min(size) < factor:
        scale = max(factor / width, factor / height)
        width, height = int(width * scale), int(height * scale)
    counted = round(frames / patch_frames) * patch_frames
    return _resize((width, height), frames, counted, factor, (min_pixels, max_pixels))


def _resize(
    size: tuple[int, int], frames: int, counted: int, factor: int, limits: tuple[int, int]
) -> tuple[int, int]:
    """Resize a frame of `size` (width, height) so that the area of a clip is within `limits`.

    As in Qwen's code, whether it must be resized is decided by the area of `counted` frames, but
    the scale is computed from that of `frames`.
    """
    width, height = size
    wide, high = round(width / factor) * factor, round(height / factor) * factor
    if counted * wide * high > limits[1]:
        shrink = math.sqrt(frames * width * height / limits[1])
        wide = max(factor, math.floor(width / shrink / factor) * factor)
        high = max(factor, math.floor(height / shrink / factor) * factor)
    elif counted * wide * high < limits[0]:
        grow = math.sqrt(limits[0] / (frames * width * height))
        wide = math.ceil(width * grow / factor) * factor
        high = math.ceil(height * grow / factor) * factor
    return wide, high

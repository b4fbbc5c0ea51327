"""The node `colour_and_shape`: names instances by colour, shape and place, with OpenCV only.

The colour is the nearest of a short list in CIELAB. The shape is the upright outline with the
highest overlap. An instance of several colours, or without a fitting outline, as in most
photographs, is called `object`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.models.nodes.flat_regions import colour_of, lab_of
from harness.models.nodes.instances import mask_overlap
from harness.models.tracks import extent
from harness.node import Instance, Kind, Node, NodeKind, Output, Plain, Semantics, instances_of

Corner: TypeAlias = tuple[float, float]

COLOURS: Mapping[str, tuple[int, int, int]] = {
    "red": (214, 32, 36),
    "dark red": (120, 24, 24),
    "orange": (248, 132, 20),
    "brown": (120, 78, 44),
    "beige": (206, 180, 150),
    "yellow": (244, 220, 40),
    "green": (36, 160, 52),
    "dark green": (40, 70, 36),
    "olive": (112, 112, 60),
    "cyan": (40, 190, 200),
    "blue": (40, 72, 216),
    "light blue": (150, 190, 230),
    "dark blue": (28, 36, 90),
    "purple": (140, 44, 172),
    "pink": (240, 150, 180),
    "white": (248, 248, 248),
    "light grey": (190, 190, 190),
    "grey": (128, 128, 128),
    "dark grey": (70, 70, 72),
    "black": (24, 24, 28),
}
"""Red, green and blue (0 to 255) of each colour."""

MAX_SPREAD = 12.0
"""Largest spread (CIELAB distance) of an instance's colour at which it gets a shape."""
MIN_OUTLINE_IOU = 0.78
"""Smallest IoU with an outline at which a mask, stretched to a square, has its shape."""
OUTLINE_SIDE = 64
"""Side of that square in pixels."""
MIN_PIXELS = 12
"""Smallest area of a piece that has a shape."""


def _regular_corners(corners: int, *, turn: float = 0.0, inside: float = 1.0) -> tuple[Corner, ...]:
    """Return the corners of a regular polygon or star, scaled to the unit box.

    Args:
        corners: Number of corners; they go clockwise from the top.
        turn: Rotation as a share of the angle between two corners.
        inside: Radius of every second corner, relative to the others.
    """
    angles = [2 * math.pi * (number + turn) / corners for number in range(corners)]
    radii = [inside if number % 2 else 1.0 for number in range(corners)]
    points = [
        (radius * math.sin(angle), -radius * math.cos(angle))
        for radius, angle in zip(radii, angles, strict=True)
    ]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    top, bottom = min(y for _, y in points), max(y for _, y in points)
    return tuple(((x - left) / (right - left), (y - top) / (bottom - top)) for x, y in points)


THIRD = 1 / 3
OUTLINES: Mapping[str, tuple[tuple[Corner, ...], ...]] = {
    "circle": (_regular_corners(48),),
    "square": (((0, 0), (1, 0), (1, 1), (0, 1)),),
    "triangle": (((0.5, 0), (1, 1), (0, 1)), ((0, 0), (1, 0), (0.5, 1))),
    "diamond": (((0.5, 0), (1, 0.5), (0.5, 1), (0, 0.5)),),
    "star": (_regular_corners(10, inside=0.382), _regular_corners(10, inside=0.5)),
    "cross": (
        (
            *((THIRD, 0), (2 * THIRD, 0), (2 * THIRD, THIRD), (1, THIRD), (1, 2 * THIRD)),
            *((2 * THIRD, 2 * THIRD), (2 * THIRD, 1), (THIRD, 1), (THIRD, 2 * THIRD)),
            *((0, 2 * THIRD), (0, THIRD), (THIRD, THIRD)),
        ),
    ),
    "hexagon": (_regular_corners(6), _regular_corners(6, turn=0.5)),
}
"""Corners of the upright outlines of each shape, in a box from (0, 0) to (1, 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColourAndShape(Node):
    """Names the colour, shape and place of each instance, and counts instances by name."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.SEMANTICS,
        accepts=frozenset({Kind.INSTANCES}),
        summary="names of instances by colour and shape",
    )

    name = "colour_and_shape"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Semantics:
        """Name every instance by its pixels in the frame that shows most of it."""
        attributes: dict[str, dict[str, Plain]] = {}
        instances = instances_of(inputs)
        for instance in instances:
            index = _clearest_frame(instance, indices)
            if index is not None:
                attributes[instance.key] = attributes_of(media.frame(index), instance.track[index])
        number_by_name = Counter(str(entry["name"]) for entry in attributes.values())
        summary = ", ".join(f"{number} {name}" for name, number in number_by_name.items())
        frames = {
            index: _frame_description(instances, attributes, index) if attributes else ""
            for index in indices
        }
        return Semantics(summary, frames if len(indices) > 1 else {}, attributes)


def colour_and_shape() -> ColourAndShape:
    """Colour, shape, size and place of instances, by OpenCV; no weights."""
    return ColourAndShape()


def attributes_of(image: Frame, mask: BoolArray) -> dict[str, Plain]:
    """Return the attributes of one object; its mask (height × width) has at least one pixel."""
    median, spread = colour_of(image, mask)
    colour = colour_name(median)
    shape = shape_name(mask) if spread < MAX_SPREAD else None
    attributes: dict[str, Plain] = {"name": f"{colour} {shape or 'object'}", "colour": colour}
    if shape:
        attributes["shape"] = shape
    return attributes | {"place": place_name(mask)}


def colour_name(lab: NDArray[Any]) -> str:
    """Return the name of the colour nearest to a CIELAB colour."""
    palette = lab_of(np.array([list(COLOURS.values())], np.uint8))[0]
    return list(COLOURS)[int(np.linalg.norm(palette - lab, axis=1).argmin())]


def shape_name(mask: BoolArray) -> str | None:
    """Return the outline with the highest IoU; None if no outline fits well.

    The mask's largest piece is compared, stretched to the square of the outlines.

    >>> shape_name(np.ones((10, 20), dtype=np.bool_))
    'rectangle'
    """
    n_pieces, pieces, boxes, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    largest = 1 + int(boxes[1:, cv2.CC_STAT_AREA].argmax()) if n_pieces > 1 else 0
    left, top, width, height, area = (int(number) for number in boxes[largest])
    if largest == 0 or area < MIN_PIXELS:
        return None
    piece = (pieces[top : top + height, left : left + width] == largest).astype(np.float32)
    square = cv2.resize(piece, (OUTLINE_SIDE, OUTLINE_SIDE), interpolation=cv2.INTER_LINEAR) > 0.5
    fits = {
        name: max(mask_overlap(square, outline) for outline in outlines)
        for name, outlines in _outline_masks().items()
    }
    best = max(fits, key=lambda name: fits[name])
    if fits[best] < MIN_OUTLINE_IOU:
        return None
    elongated = max(width, height) > 1.2 * min(width, height)
    return "rectangle" if best == "square" and elongated else best


@cache
def _outline_masks() -> Mapping[str, tuple[BoolArray, ...]]:
    """Return the outlines as masks of OUTLINE_SIDE × OUTLINE_SIDE, by shape."""
    masks_by_name = {}
    for name, polygons in OUTLINES.items():
        masks = []
        for polygon in polygons:
            mask = np.zeros((OUTLINE_SIDE, OUTLINE_SIDE), np.uint8)
            corners = np.rint(np.array(polygon) * (OUTLINE_SIDE - 1)).astype(np.int32)
            masks.append(cv2.fillPoly(mask, [corners], 1) != 0)
        masks_by_name[name] = tuple(masks)
    return masks_by_name


def place_name(mask: BoolArray) -> str:
    """Return the ninth of the image that holds a mask's centroid, such as `top left`."""
    rows, columns = np.nonzero(mask)
    down = ("top", "middle", "bottom")[min(2, int(3 * rows.mean() / mask.shape[0]))]
    across = ("left", "centre", "right")[min(2, int(3 * columns.mean() / mask.shape[1]))]
    return "centre" if (down, across) == ("middle", "centre") else f"{down} {across}"


def _clearest_frame(instance: Instance, indices: Sequence[int]) -> int | None:
    """Return the described frame with the instance's largest mask; None if all are empty.

    Frames in which the mask does not touch the image's edge come first.
    """
    best: tuple[bool, int, int] | None = None
    for index in indices:
        mask = instance.track[index]
        box = extent(mask)
        if box is None:
            continue
        height, width = mask.shape
        inside = box.left > 0 and box.top > 0 and box.right < width and box.bottom < height
        candidate = (inside, int(mask.sum()), -index)  # of equal ones, the earliest frame
        best = candidate if best is None else max(best, candidate)
    return None if best is None else -best[2]


def _frame_description(
    instances: Sequence[Instance], attributes: Mapping[str, Mapping[str, Plain]], index: int
) -> str:
    """Return the names and places of the instances that are visible in a frame."""
    descriptions = [
        f"{attributes[instance.key]['name']} {place_name(instance.track[index])}"
        for instance in instances
        if instance.key in attributes and instance.track.rle(index).area
    ]
    return ", ".join(descriptions)

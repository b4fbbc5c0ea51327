"""Names of instances from their pixels: colour, shape, size and place, by OpenCV alone.

The colour is the nearest of a short list in CIELAB; the shape follows from the outline: its corners
(Douglas and Peucker), how much of its box, of its hull and of its circle it fills. On drawings that
says what there is. On photographs a shape is only named where it is clear, and `object` otherwise.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.models.tracks import extent
from harness.node import Instance, Kind, Node, NodeKind, Output, Plain, Semantics, instances_of

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
"""Red, green and blue of what a name means."""

PURE = 12.0  # CIELAB: an instance whose colour varies less is of one colour
"""Threshold of the spread of colour up to which a shape is looked for."""
ROUND = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class ColourAndShape(Node):
    """Colour, shape, size and place of each instance; how many there are of each."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.SEMANTICS,
        accepts=frozenset({Kind.INSTANCES}),
        summary="names of instances by colour and shape",
    )

    @property
    def name(self) -> str:
        """`colour_and_shape`."""
        return "colour_and_shape"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Semantics:
        """Name every instance in the frame in which most of it is seen."""
        named: dict[str, dict[str, Plain]] = {}
        instances = instances_of(inputs)
        for instance in instances:
            index = _clearest(instance, indices)
            if index is not None:
                named[instance.key] = look(media.frame(index), instance.track[index])
        counts = Counter(str(one["name"]) for one in named.values())
        said = ", ".join(f"{count} {name}" for name, count in counts.items())
        frames = {index: _frame(instances, named, index) if named else "" for index in indices}
        return Semantics(said, frames if len(indices) > 1 else {}, named)


def colour_and_shape() -> ColourAndShape:
    """Colour, shape, size and place of instances, by OpenCV; no weights."""
    return ColourAndShape()


def look(image: Frame, mask: BoolArray) -> dict[str, Plain]:
    """Attributes of one object (a mask of height × width with at least one pixel)."""
    pixels = _lab(image[_core(mask)][None])[0]
    middle = np.median(pixels, axis=0)
    colour = colour_name(middle)
    spread = float(np.median(np.linalg.norm(pixels - middle, axis=1)))
    shape = shape_name(mask) if spread < PURE else None
    attributes: dict[str, Plain] = {"name": f"{colour} {shape or 'object'}", "colour": colour}
    if shape:
        attributes["shape"] = shape
    return attributes | {"place": place_name(mask)}


def colour_name(lab: NDArray[Any]) -> str:
    """The nearest named colour to one in CIELAB."""
    known = _lab(np.array([list(COLOURS.values())], np.uint8))[0]
    return list(COLOURS)[int(np.linalg.norm(known - lab, axis=1).argmin())]


def shape_name(mask: BoolArray) -> str | None:
    """The shape of a mask's largest piece; None where it is none of those known."""
    pieces, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    outline = max(pieces, key=cv2.contourArea)
    area = float(cv2.contourArea(outline))
    if area < 12:
        return None
    hull = cv2.convexHull(outline)
    solid = area / max(float(cv2.contourArea(hull)), 1.0)
    length = float(cv2.arcLength(hull, closed=True))
    corners = cv2.approxPolyDP(hull, 0.04 * length, closed=True).reshape(-1, 2)
    _, radius = cv2.minEnclosingCircle(hull)
    (_, sides, _) = cv2.minAreaRect(outline)
    filled = area / max(sides[0] * sides[1], 1.0)
    if solid < 0.9:
        deep = _notches(outline, hull, length)
        return {5: "star", 4: "cross"}.get(deep)
    if area / (np.pi * radius**2) > ROUND or (len(corners) > 6):
        return "circle"
    if len(corners) == 3:
        return "triangle"
    if filled > 0.88:
        _, _, width, height = cv2.boundingRect(outline)
        upright = area / (width * height) > 0.8
        if upright:
            return "square" if max(width, height) <= 1.2 * min(width, height) else "rectangle"
        return "diamond"
    if len(corners) == 4:
        return "diamond"
    return "hexagon" if len(corners) in (5, 6) else None


def place_name(mask: BoolArray) -> str:
    """The ninth of the image in which a mask's centroid lies, such as `top left`."""
    rows, columns = np.nonzero(mask)
    down = ("top", "middle", "bottom")[min(2, int(3 * rows.mean() / mask.shape[0]))]
    across = ("left", "centre", "right")[min(2, int(3 * columns.mean() / mask.shape[1]))]
    return "centre" if (down, across) == ("middle", "centre") else f"{down} {across}"


def _notches(outline: Any, hull: Any, length: float) -> int:
    """Number of deep dents of an outline."""
    places = cv2.convexHull(outline, returnPoints=False)
    dents = cv2.convexityDefects(outline, np.sort(places, axis=0)[::-1])
    if dents is None:
        return 0
    depths = np.sort(dents.reshape(-1, 4)[:, 3] / 256)[::-1]
    return int((depths > max(0.04 * length, 0.4 * depths[0])).sum())


def _core(mask: BoolArray) -> BoolArray:
    """A mask without its outermost pixels, which mix with their surroundings, if any are left."""
    core = cv2.erode(np.pad(mask.astype(np.uint8), 1), np.ones((3, 3), np.uint8))[1:-1, 1:-1] != 0
    return core if core.any() else mask


def _lab(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    return np.asarray(lab, dtype=np.float64)


def _clearest(instance: Instance, indices: Sequence[int]) -> int | None:
    """The described frame in which most of an instance is seen, inside the image if possible."""
    best: tuple[bool, int, int] | None = None
    for index in indices:
        mask = instance.track[index]
        box = extent(mask)
        if box is None:
            continue
        height, width = mask.shape
        whole = box.left > 0 and box.top > 0 and box.right < width and box.bottom < height
        here = (whole, int(mask.sum()), -index)
        best = here if best is None else max(best, here)
    return None if best is None else -best[2]


def _frame(
    instances: Sequence[Instance], named: Mapping[str, Mapping[str, Plain]], index: int
) -> str:
    seen = [
        f"{named[one.key]['name']} {place_name(one.track[index])}"
        for one in instances
        if one.key in named and one.track.rle(index).area
    ]
    return ", ".join(seen)

"""Draw a scene's frames: images (height × width × 3, uint8), masks and areas of its things.

Generators of scenes and questions call these functions with a `Scene` and a frame's number. All is
computed in whole numbers, so that results are equal on every machine. A pixel belongs to a shape if
its centre is inside or on the shape's outline. There is no antialiasing, so that edges in the image
are edges of the masks.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from harness.masks import BoolArray
from harness.media import Frame
from harness.world.backgrounds import draw_background
from harness.world.scene import COLOURS, RGB, Scene, Shape, Thing

IntArray = NDArray[np.int64]

NO_FILLS: Mapping[int, RGB] = MappingProxyType({})
SCALE = 1000  # outlines are in thousandths of the radius

OUTLINES: Mapping[Shape, tuple[tuple[int, int], ...]] = MappingProxyType(
    {
        "square": ((-850, -850), (850, -850), (850, 850), (-850, 850)),
        "triangle": ((0, -1000), (1000, 850), (-1000, 850)),
        "rectangle": ((-1250, -500), (1250, -500), (1250, 500), (-1250, 500)),
        "diamond": ((0, -1150), (750, 0), (0, 1150), (-750, 0)),
        "star": (
            *((0, -1100), (270, -372), (1046, -340), (437, 142), (647, 890)),
            *((0, 460), (-647, 890), (-437, 142), (-1046, -340), (-270, -372)),
        ),
        "cross": (
            *((-340, -1000), (340, -1000), (340, -340), (1000, -340), (1000, 340), (340, 340)),
            *((340, 1000), (-340, 1000), (-340, 340), (-1000, 340), (-1000, -340), (-340, -340)),
        ),
        "hexagon": ((-1050, 0), (-525, -910), (525, -910), (1050, 0), (525, 910), (-525, 910)),
    }
)
"""Corners (x, y) around the centre, in thousandths of the radius. A circle has none."""


@cache
def template(shape: Shape, radius: int) -> BoolArray:
    """Return a shape's mask: an odd square array with its centre in the middle; read-only."""
    coordinates = [abs(part) for corner in OUTLINES.get(shape, ()) for part in corner]
    reach = max(coordinates, default=SCALE)
    extent = -(-reach * radius // SCALE)
    y, x = np.mgrid[-extent : extent + 1, -extent : extent + 1].astype(np.int64)
    inside: BoolArray
    if shape == "circle":
        inside = x * x + y * y <= radius * (radius + 1)
    else:
        corners = [(cx * radius, cy * radius) for cx, cy in OUTLINES[shape]]
        inside = _in_polygon(x * SCALE, y * SCALE, corners)
    inside.flags.writeable = False
    return inside


def _in_polygon(x: IntArray, y: IntArray, corners: list[tuple[int, int]]) -> BoolArray:
    """Return True for points in a polygon by the even-odd rule, and for those on its outline.

    The outline is included so that a symmetric shape has a symmetric mask.
    """
    inside = np.zeros(x.shape, dtype=np.bool_)
    on_edge = np.zeros(x.shape, dtype=np.bool_)
    for (x0, y0), (x1, y1) in zip(corners, [*corners[1:], corners[0]], strict=True):
        side = (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)
        upwards = y1 < y0
        inside ^= ((y0 > y) != (y1 > y)) & ((side > 0) if upwards else (side < 0))
        within_x = (min(x0, x1) <= x) & (x <= max(x0, x1))
        within_y = (min(y0, y1) <= y) & (y <= max(y0, y1))
        on_edge |= (side == 0) & within_x & within_y
    return inside | on_edge


@cache
def extents(shape: Shape, radius: int) -> tuple[int, int]:
    """Return the reach of the shape from its centre, in pixels: (sideways, up or down)."""
    mask = template(shape, radius)
    middle = mask.shape[0] // 2
    columns, rows = np.flatnonzero(mask.any(0)), np.flatnonzero(mask.any(1))
    return (
        int(max(middle - columns[0], columns[-1] - middle)),
        int(max(middle - rows[0], rows[-1] - middle)),
    )


@cache
def _rim(shape: Shape, radius: int) -> BoolArray:
    """Return the outermost pixels of a shape's template."""
    mask = template(shape, radius)
    inner = np.pad(mask, 1)
    return mask & ~(inner[:-2, 1:-1] & inner[2:, 1:-1] & inner[1:-1, :-2] & inner[1:-1, 2:])


def owners(scene: Scene, frame: int = 0) -> IntArray:
    """Return the index of the nearest thing at each pixel, height × width; -1: the background."""
    owner = np.full((scene.height, scene.width), -1, dtype=np.int64)
    for index in _far_to_near(scene):
        thing = scene.things[index]
        window, part = _template_slices(scene, thing, frame)
        owner[window][template(thing.shape, scene.radius(thing))[part]] = index
    return owner


def visible_masks(scene: Scene, frame: int = 0) -> BoolArray:
    """Return the visible pixels of each thing: boolean, things × height × width."""
    numbers = np.arange(len(scene.things))[:, None, None]
    masks: BoolArray = owners(scene, frame)[None] == numbers
    return masks


def parts_in_image(scene: Scene, frame: int) -> Iterator[tuple[BoolArray, BoolArray]]:
    """Yield for each thing (its pixels in the image, its visible pixels).

    Both are cropped to the thing's rectangle, which is much faster than masks of the image.
    """
    owner = owners(scene, frame)
    for index, thing in enumerate(scene.things):
        window, part = _template_slices(scene, thing, frame)
        yield template(thing.shape, scene.radius(thing))[part], owner[window] == index


def visible_areas(scene: Scene) -> IntArray:
    """Return the numbers of visible pixels, frames × things."""
    count = len(scene.things)
    return np.stack(
        [
            np.bincount(owners(scene, frame).ravel() + 1, minlength=count + 1)[1:]
            for frame in range(scene.frames)
        ]
    ).astype(np.int64)


def whole_areas(scene: Scene) -> IntArray:
    """Return each thing's number of pixels as if it were not covered and the image had no edges."""
    return np.array(
        [int(template(thing.shape, scene.radius(thing)).sum()) for thing in scene.things],
        dtype=np.int64,
    )


def render(scene: Scene, frame: int = 0, *, fills: Mapping[int, RGB] = NO_FILLS) -> Frame:
    """Return the image of one frame: height × width × 3, uint8, RGB.

    A thing is filled with its exact colour; its outermost pixels are darker (lighter for black
    things), so that two touching things of one colour can be told apart. `fills`: colours in place
    of the things' own, by index.
    """
    owner = owners(scene, frame)
    image = _background(scene).copy()
    for index, thing in enumerate(scene.things):
        window, part = _template_slices(scene, thing, frame)
        visible = owner[window] == index
        fill = fills.get(index, COLOURS[thing.colour])
        image[window][visible] = fill
        rim = _rim(thing.shape, scene.radius(thing))[part]
        image[window][visible & rim] = _rim_colour(fill)
    return image


def edges(mask: BoolArray) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of a mask's pixels, the last two exclusive."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def has_holes(mask: BoolArray) -> bool:
    """Return True if a mask encloses background, which outer contours could not represent.

    Foreground is connected by edges and corners, background by edges only, as for contours.
    """
    if not mask.any():
        return False
    left, top, right, bottom = edges(mask)
    cut = mask[top:bottom, left:right]
    _, pieces = ndimage.label(~np.pad(cut, 1))
    return int(pieces) > 1


def is_outside(scene: Scene, thing: Thing, frame: int) -> bool:
    """Return True if no pixel of the thing lies in the image, occluded or not."""
    _, part = _template_slices(scene, thing, frame)
    return not template(thing.shape, scene.radius(thing))[part].any()


def is_inside(scene: Scene, thing: Thing, frame: int) -> bool:
    """Return True if all of the thing lies in the image, occluded or not."""
    x, y = thing.centre(frame)
    sideways, upwards = extents(thing.shape, scene.radius(thing))
    return sideways <= x < scene.width - sideways and upwards <= y < scene.height - upwards


def _far_to_near(scene: Scene) -> list[int]:
    return sorted(range(len(scene.things)), key=lambda index: -scene.things[index].depth)


Slices = tuple[slice, slice]


def _template_slices(scene: Scene, thing: Thing, frame: int) -> tuple[Slices, Slices]:
    """Return (slices of the image that a thing's template covers, slices of the template there).

    Each is (rows, columns).
    """
    reach = template(thing.shape, scene.radius(thing)).shape[0] // 2
    x, y = thing.centre(frame)
    down, down_part = _overlap(y - reach, 2 * reach + 1, scene.height)
    across, across_part = _overlap(x - reach, 2 * reach + 1, scene.width)
    return (down, across), (down_part, across_part)


def _overlap(start: int, length: int, limit: int) -> tuple[slice, slice]:
    """Return (a range of `length` clipped to 0 … limit, the same part counted from `start`)."""
    low = min(max(start, 0), limit)
    high = max(min(start + length, limit), low)
    return slice(low, high), slice(low - start, high - start)


@cache
def _rim_colour(fill: RGB) -> RGB:
    red, green, blue = fill
    if red + green + blue < 120:
        return red + 48, green + 48, blue + 48
    return red * 5 // 8, green * 5 // 8, blue * 5 // 8


def _background(scene: Scene) -> Frame:
    return draw_background(scene.background, width=scene.width, height=scene.height)

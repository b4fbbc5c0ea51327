"""View of a scene by the network: boxes on the canvas, and the content of each image token."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from harness.types import Point
from harness.world.language import Noun
from harness.world.raster import edges, visible_masks
from harness.world.scene import RGB, Scene

CANVAS = 168  # side in pixels of the square that every image is squashed to
CELLS = 6  # image tokens along each side
CLEAR_SHARE = 0.8  # of a thing's largest visible area: most of it


@dataclass(frozen=True)
class View:
    """A scene as the network sees it: some of its frames, squashed to the canvas.

    Frames are counted from the first one of these.
    """

    scene: Scene
    frames: Sequence[int] = (0,)
    fills: Mapping[int, RGB] = field(default_factory=dict)
    """Colours without a name, by the thing that has one instead of the scene's colour."""

    @cached_property
    def masks(self) -> NDArray[np.bool_]:
        """Frames × things × height × width: visible pixels."""
        return np.stack([visible_masks(self.scene, frame) for frame in self.frames])

    @cached_property
    def names(self) -> list[str]:
        """Names of the things in reasoning: size, colour and shape."""
        return [Noun(*thing.combination).words() for thing in self.scene.things]

    @cached_property
    def areas(self) -> NDArray[np.int64]:
        """Frames × things: numbers of visible pixels."""
        areas: NDArray[np.int64] = self.masks.sum((2, 3))
        return areas

    @cached_property
    def boxes(self) -> NDArray[np.int64]:
        """Frames × things × (left, top, right, bottom) on the canvas; -1 where not visible."""
        scale = np.array([CANVAS / self.scene.width, CANVAS / self.scene.height] * 2)
        boxes = np.full((*self.areas.shape, 4), -1)
        for place in np.argwhere(self.areas):
            boxes[*place] = np.floor(np.array(edges(self.masks[*place])) * scale + 0.5)
        return boxes

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """Frames × things × image tokens: the part of the token's area that the thing covers."""
        rows, columns = map(_share_of_cells, self.masks.shape[2:])
        return (rows @ self.masks.astype(np.float64) @ columns.T).reshape(*self.areas.shape, -1)

    def parts(self, side: int) -> NDArray[np.float64]:
        """Grids × things × image tokens × side²: as `shares`, of each cell of a grid over a token.

        With two cells a side these are the token's patches, in the order of the architecture. Not
        by products of matrices as above: at this size NumPy's library starts threads for them, and
        in two processes on two cores a step took twice as long.
        """
        masks, whole = self.masks[::2].astype(np.uint8) * 255, (CELLS * side, CELLS * side)
        images = (Image.fromarray(mask) for masks_of_frame in masks for mask in masks_of_frame)
        small = [np.asarray(image.resize(whole, Image.Resampling.BOX)) / 255 for image in images]
        split = np.stack(small).reshape(*masks.shape[:2], CELLS, side, CELLS, side).swapaxes(3, 4)
        return split.reshape(*masks.shape[:2], CELLS * CELLS, side * side)

    def pixel_inside(self, thing: int, frame: int) -> Point:
        """A visible pixel of the thing, on the canvas: its middle one."""
        places = np.argwhere(self.masks[frame, thing])
        y, x = places[((places - places.mean(0)) ** 2).sum(1).argmin()] + 0.5
        return Point(float(x * CANVAS // self.scene.width), float(y * CANVAS // self.scene.height))

    def middle(self, thing: int, frame: int = 0) -> tuple[int, int]:
        """The middle of the thing's visible box on the canvas."""
        left, top, right, bottom = self.boxes[frame, thing].tolist()
        return (left + right) // 2, (top + bottom) // 2

    def in_order(self, things: Iterable[int], frame: int = 0) -> list[int]:
        """Things in sight in the order of responses: by image token, row by row."""

        def place(thing: int) -> tuple[int, int, int]:
            x, y = self.middle(thing, frame)
            return min(y * CELLS // CANVAS, CELLS - 1), x, y

        return sorted((one for one in things if self.areas[frame, one]), key=place)

    def ends(self, thing: int, *, clear: bool = False) -> tuple[int, int]:
        """The first and the last frame in which a thing is in sight, or most of it if `clear`.

        Then its visible middle is not shifted by an edge of the image, or by another thing.
        """
        areas = self.areas[:, thing]
        seen = np.flatnonzero(areas >= max(1, clear * CLEAR_SHARE * areas.max())).tolist()
        return seen[0], seen[-1]


def _share_of_cells(length: int) -> NDArray[np.float64]:
    """Cells × pixels: which part of a cell each pixel of a side fills."""
    pixels, edges = np.arange(length), np.arange(CELLS + 1)[:, None] * length / CELLS
    covered = np.minimum(pixels + 1, edges[1:]) - np.maximum(pixels, edges[:-1])
    shares: NDArray[np.float64] = np.clip(covered, 0, 1) / (length / CELLS)
    return shares

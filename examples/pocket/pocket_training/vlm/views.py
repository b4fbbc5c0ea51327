"""View of a scene by the network: boxes on the canvas, and the content of each image token."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from harness.types import Point
from harness.world.raster import visible_masks
from harness.world.scene import RGB, Scene

CANVAS = 168
"""Side in pixels of the square that every image is squashed to; number tokens go this far."""

CELLS = 6  # image tokens along each side
CLEAR_SHARE = 0.8
"""Share of a thing's largest visible area that counts as most of it."""


@dataclass(frozen=True)
class View:
    """A scene as the network sees it: some of its frames, squashed to the canvas."""

    scene: Scene
    frames: tuple[int, ...]
    fills: Mapping[int, RGB] = field(default_factory=dict, hash=False)
    """Colours without a name, by the thing that has one instead of the scene's colour."""

    @cached_property
    def masks(self) -> Mapping[int, NDArray[np.bool_]]:
        """Visible pixels, things × height × width, by frame."""
        return {frame: visible_masks(self.scene, frame) for frame in self.frames}

    @cached_property
    def boxes(self) -> Mapping[int, NDArray[np.int64]]:
        """Things × (left, top, right, bottom) on the canvas, by frame; -1 where not visible."""
        scale = np.array([CANVAS / self.scene.width, CANVAS / self.scene.height] * 2)
        boxes = {frame: np.full((len(masks), 4), -1) for frame, masks in self.masks.items()}
        for frame, masks in self.masks.items():
            for thing in np.flatnonzero(masks.any((1, 2))):
                (x, y) = (np.flatnonzero(masks[thing].any(axis)) for axis in (0, 1))
                edges = np.array([x[0], y[0], x[-1] + 1, y[-1] + 1])
                boxes[frame][thing] = np.floor(edges * scale + 0.5)
        return boxes

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """Frames × things × image tokens: the part of the token's area that the thing covers."""
        masks = np.stack([self.masks[frame] for frame in self.frames])
        rows, columns = map(_share_of_cells, masks.shape[2:])
        return (rows @ masks.astype(np.float64) @ columns.T).reshape(*masks.shape[:2], -1)

    def parts(self, frame: int, side: int) -> NDArray[np.float64]:
        """Things × image tokens × side²: the covered part of each cell of a grid over the token.

        With two cells a side these are the token's patches, in the order of the architecture. Not
        by products of matrices as above: at this size NumPy's library starts threads for them, and
        in two processes on two cores a step took twice as long.
        """
        whole = (CELLS * side, CELLS * side)
        images = (Image.fromarray(mask.astype(np.uint8) * 255) for mask in self.masks[frame])
        small = [np.asarray(image.resize(whole, Image.Resampling.BOX)) / 255 for image in images]
        split = np.stack(small).reshape(-1, CELLS, side, CELLS, side).swapaxes(2, 3)
        return split.reshape(len(small), CELLS * CELLS, side * side)

    def pixel_inside(self, thing: int, frame: int) -> Point:
        """A visible pixel of the thing, on the canvas: its middle one."""
        places = np.argwhere(self.masks[frame][thing])
        y, x = places[((places - places.mean(0)) ** 2).sum(1).argmin()] + 0.5
        return Point(float(x * CANVAS // self.scene.width), float(y * CANVAS // self.scene.height))

    def middle(self, thing: int, frame: int) -> tuple[int, int]:
        """The middle of the thing's visible box on the canvas."""
        left, top, right, bottom = self.boxes[frame][thing].tolist()
        return (left + right) // 2, (top + bottom) // 2

    def in_order(self, things: Iterable[int], frame: int) -> list[int]:
        """Things in sight in the order of responses: by image token, row by row."""

        def place(thing: int) -> tuple[int, int, int]:
            x, y = self.middle(thing, frame)
            return min(y * CELLS // CANVAS, CELLS - 1), x, y

        return sorted((one for one in things if self.masks[frame][one].any()), key=place)

    def ends(self, thing: int, *, clear: bool = False) -> tuple[int, int]:
        """The first and the last frame in which a thing is in sight, or most of it if `clear`.

        Then its visible middle is not shifted by an edge of the image, or by another thing.
        """
        areas = {frame: int(self.masks[frame][thing].sum()) for frame in self.frames}
        least = max(1.0, clear * CLEAR_SHARE * max(areas.values()))
        seen = [frame for frame, area in areas.items() if area >= least]
        return seen[0], seen[-1]


def _share_of_cells(length: int) -> NDArray[np.float64]:
    """Cells × pixels: which part of a cell each pixel of a side fills."""
    pixels, edges = np.arange(length), np.arange(CELLS + 1)[:, None] * length / CELLS
    covered = np.minimum(pixels + 1, edges[1:]) - np.maximum(pixels, edges[:-1])
    shares: NDArray[np.float64] = np.clip(covered, 0, 1) / (length / CELLS)
    return shares

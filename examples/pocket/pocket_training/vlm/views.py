"""View of a scene by the network: boxes on the canvas, and the content of each image token."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from harness.types import Point
from harness.world.raster import visible_masks
from harness.world.scene import RGB, Scene
from pocket_training.vlm.vocabulary import CANVAS

CELLS = 6  # image tokens along each side
MIN_PIXELS = 0.04
"""The part of an image token's area that a thing must cover for the token to speak of it."""
MIN_PIXELS_OF_PATCH = 0.1
"""The same of a patch's area, which is a quarter of a token's."""
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
        return {frame: self._boxes(frame) for frame in self.frames}

    def _boxes(self, frame: int) -> NDArray[np.int64]:
        scale = np.array([CANVAS / self.scene.width, CANVAS / self.scene.height] * 2)
        found = np.full((len(self.scene.things), 4), -1, dtype=np.int64)
        for index, mask in enumerate(self.masks[frame]):
            columns, rows = np.flatnonzero(mask.any(0)), np.flatnonzero(mask.any(1))
            if len(columns):
                edges = np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])
                found[index] = np.floor(edges * scale + 0.5)
        return found

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """Frames × things × image tokens: the part of the token's area that the thing covers."""
        masks = np.stack([self.masks[frame] for frame in self.frames])
        height, width = masks.shape[2:]
        rows, columns = _share_of_cells(height), _share_of_cells(width)
        parts: NDArray[np.float64] = rows @ masks.astype(np.float64) @ columns.T
        return parts.reshape(*masks.shape[:2], -1)

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
        rows, columns = np.nonzero(self.masks[frame][thing])
        y, x = rows.mean(), columns.mean()
        nearest = int(np.argmin((rows - y) ** 2 + (columns - x) ** 2))
        return Point(
            float(int((columns[nearest] + 0.5) * CANVAS / self.scene.width)),
            float(int((rows[nearest] + 0.5) * CANVAS / self.scene.height)),
        )

    def middle(self, thing: int, frame: int) -> tuple[int, int]:
        """The middle of the thing's visible box on the canvas."""
        left, top, right, bottom = self.boxes[frame][thing]
        return int(left + right) // 2, int(top + bottom) // 2

    def in_order(self, things: Iterable[int], frame: int) -> list[int]:
        """Things in the order in which responses list them: by image token, row by row."""

        def place(thing: int) -> tuple[int, int, int]:
            x, y = self.middle(thing, frame)
            return min(y * CELLS // CANVAS, CELLS - 1), x, y

        return sorted((one for one in things if self.in_sight(one, frame)), key=place)

    def ends(self, thing: int) -> tuple[int, int]:
        """The first and the last frame in which a thing is in sight."""
        seen = [frame for frame in self.frames if self.in_sight(thing, frame)]
        return seen[0], seen[-1]

    def clear_ends(self, thing: int) -> tuple[int, int]:
        """Return the first and the last frame in which most of a thing is in sight: its visible
        middle is then not shifted by an edge of the image, or by another thing in front.
        """
        areas = {frame: int(self.masks[frame][thing].sum()) for frame in self.frames}
        clear = [
            frame for frame, area in areas.items() if area >= CLEAR_SHARE * max(areas.values())
        ]
        return clear[0], clear[-1]

    def in_sight(self, thing: int, frame: int) -> bool:
        """Return True if any part of it is visible."""
        return bool(self.boxes[frame][thing][0] >= 0)


@lru_cache
def _share_of_cells(length: int) -> NDArray[np.float64]:
    """Cells × pixels: which part of a cell each pixel of a side fills."""
    pixels = np.arange(length)
    edges = np.arange(CELLS + 1) * length / CELLS
    low, high = edges[:-1, None], edges[1:, None]
    covered = np.clip(np.minimum(pixels + 1, high) - np.maximum(pixels, low), 0, 1)
    shares: NDArray[np.float64] = covered / (length / CELLS)
    return shares

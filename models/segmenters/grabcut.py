"""GrabCut on the prompt's box and points: a segmenter without weights.

The method is GrabCut (Rother, Kolmogorov, Blake: "GrabCut: Interactive Foreground Extraction using
Iterated Graph Cuts", SIGGRAPH 2004) as OpenCV implements it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray
from harness.media import Frame
from harness.models.factory import at_least
from harness.models.segmenters.places import Rectangle, points_inside, rectangle
from harness.segmentation import ObjectPrompt, Segmenter
from harness.types import Point

Trimap = NDArray[np.uint8]
"""height × width of a view: cv2.GC_BGD, GC_FGD, GC_PR_BGD or GC_PR_FGD."""

SEED = 0  # GrabCut starts its colour models by k-means, which draws random centres
MARGIN = 0.5  # of the box's sides, at each side: the background that is modelled
MIN_MARGIN = 8  # pixels
POINT_RADIUS = 0.02  # of the view's diagonal: one pixel would not move a colour model
REACH = 0.06  # of the view's diagonal: the disc around a point to start from, without a box
MIN_SIDE = 32  # pixels: a smaller view has nothing to model
MIN_PIXELS = 16  # pixels of foreground and of background, below which colours cannot be modelled
COLLAPSED = 0.01  # of the start: keeping less is a failure of the method


@dataclass(frozen=True, slots=True, kw_only=True)
class GrabCut(Segmenter):
    """Cuts an object out of its box, or out of the surroundings of its points.

    With a box, it starts from all of it as foreground, and what surrounds it stays background.
    Without one, it starts from discs around the positive points, and any pixel may become
    foreground. Smaller discs around positive and negative points are fixed. Phrases are not read.

    Where GrabCut collapses or has too few pixels to model colours with, the answer is the start
    itself: the box, or the discs. A prompt that names no place in the image gets an empty mask.
    """

    iterations: int = 3
    max_side: int = 320
    """The crop around a box is shrunk until its longest side is at most this many pixels."""

    name = "grabcut"

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """One boolean mask (height × width of `image`) a prompt."""
        return [self._cut(image, prompt) for prompt in prompts]

    def _cut(self, image: Frame, prompt: ObjectPrompt) -> BoolArray:
        size = (image.shape[1], image.shape[0])
        mask = np.zeros((size[1], size[0]), dtype=np.bool_)
        whole = Rectangle(0, 0, *size)
        region = whole if prompt.box is None else rectangle(prompt.box, size)
        positive = points_inside(prompt.positive, size)
        if region is None or (prompt.box is None and not positive):
            return mask
        view = View.of_region(region, size, max_side=self.max_side)
        trimap = view.trimap(
            region if prompt.box is not None else None,
            view.places(positive),
            view.places(points_inside(prompt.negative, size)),
        )
        kept = self._foreground(view.shrink(image), trimap)
        if kept is None and prompt.box is not None:
            mask[region.slices] = True
        else:
            grown = view.enlarge(foreground(trimap) if kept is None else kept)
            mask[region.slices] = grown[view.region_slices(region)]
        return mask

    def _foreground(self, image: Frame, trimap: Trimap) -> BoolArray | None:
        """Return GrabCut's mask for a trimap; None where it fails."""
        start = foreground(trimap)
        if min(np.count_nonzero(start), np.count_nonzero(~start)) < MIN_PIXELS:
            return None
        cut = trimap.copy()
        models = np.zeros((1, 65)), np.zeros((1, 65))
        cv2.setRNGSeed(SEED)
        bgr = np.ascontiguousarray(image[..., ::-1])
        cv2.grabCut(bgr, cut, None, *models, self.iterations, cv2.GC_INIT_WITH_MASK)  # type: ignore[call-overload]
        kept = foreground(cut)
        collapsed = np.count_nonzero(kept) < COLLAPSED * np.count_nonzero(start)
        return None if collapsed else kept


def grabcut(*, iterations: int = 3, max_side: int = 320) -> GrabCut:
    """OpenCV's GrabCut, started from box and points; no weights."""
    at_least("grabcut", 1, iterations=iterations)
    at_least("grabcut", MIN_SIDE, max_side=max_side)
    return GrabCut(iterations=iterations, max_side=max_side)


@dataclass(frozen=True, slots=True)
class View:
    """A crop of an image, shrunk to (width, height) `size`, in which GrabCut runs."""

    crop: Rectangle
    size: tuple[int, int]

    @classmethod
    def of_region(cls, region: Rectangle, size: tuple[int, int], *, max_side: int) -> "View":
        """Return the region with a margin, clipped to an image of (width, height)."""
        across = max(MIN_MARGIN, round(region.width * MARGIN))
        down = max(MIN_MARGIN, round(region.height * MARGIN))
        crop = Rectangle(
            max(0, region.left - across),
            max(0, region.top - down),
            min(size[0], region.right + across),
            min(size[1], region.bottom + down),
        )
        scale = min(1.0, max_side / max(crop.width, crop.height))
        return cls(crop, (max(1, round(crop.width * scale)), max(1, round(crop.height * scale))))

    @property
    def diagonal(self) -> float:
        """Diagonal in pixels of the view."""
        return math.hypot(*self.size)

    def shrink(self, image: Frame) -> Frame:
        """The crop's pixels at the view's size."""
        part = image[self.crop.slices]
        return cv2.resize(part, self.size, interpolation=cv2.INTER_AREA).astype(np.uint8)

    def enlarge(self, mask: BoolArray) -> BoolArray:
        """A mask of the view at the crop's size."""
        size = (self.crop.width, self.crop.height)
        soft = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
        return np.asarray(soft >= 0.5, dtype=np.bool_)

    def region_slices(self, region: Rectangle) -> tuple[slice, slice]:
        """A region of the image as an index of the crop."""
        return Rectangle(
            region.left - self.crop.left,
            region.top - self.crop.top,
            region.right - self.crop.left,
            region.bottom - self.crop.top,
        ).slices

    def places(self, points: Sequence[Point]) -> list[tuple[int, int]]:
        """The view's pixels (x, y) under points of the image; may lie outside the view."""
        across, down = self.size[0] / self.crop.width, self.size[1] / self.crop.height
        return [
            (
                math.floor((point.x - self.crop.left) * across),
                math.floor((point.y - self.crop.top) * down),
            )
            for point in points
        ]

    def trimap(
        self,
        region: Rectangle | None,
        positive: Sequence[tuple[int, int]],
        negative: Sequence[tuple[int, int]],
    ) -> Trimap:
        """Return the trimap for GrabCut: the fixed and the open pixels."""
        near, far = self._distance(positive), self._distance(negative)
        radius = max(1.0, POINT_RADIUS * self.diagonal)
        if region is None:
            start = (near <= max(1.0, REACH * self.diagonal)) & (near < far)
            trimap = np.where(start, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
        else:
            inside = np.zeros((self.crop.height, self.crop.width), dtype=np.uint8)
            inside[self.region_slices(region)] = 1
            start = cv2.resize(inside, self.size, interpolation=cv2.INTER_NEAREST) > 0
            trimap = np.where(start, cv2.GC_PR_FGD, cv2.GC_BGD).astype(np.uint8)
        trimap[(near <= radius) & (near < far) & start] = cv2.GC_FGD
        trimap[(far <= radius) & (far <= near)] = cv2.GC_BGD
        return trimap

    def _distance(self, places: Sequence[tuple[int, int]]) -> NDArray[np.float32]:
        """Distance of each pixel of the view to the nearest place; infinite without places."""
        x, y = np.meshgrid(np.arange(self.size[0]), np.arange(self.size[1]))
        nearest = np.full(x.shape, np.inf, dtype=np.float32)
        for place in places:
            nearest = np.minimum(nearest, np.hypot(x - place[0], y - place[1]))
        return nearest.astype(np.float32)


def foreground(trimap: Trimap) -> BoolArray:
    """Return the pixels that a trimap marks as sure or probable foreground."""
    return np.isin(trimap, (cv2.GC_FGD, cv2.GC_PR_FGD))

"""The segmenter `grabcut`: GrabCut on the prompt's box and points, without weights.

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

SEED = 0
"""Seed of the random centres of the k-means that initialises GrabCut's colour models."""
MARGIN = 0.5
"""Margin of background around the box on each side, as a share of the box's side."""
MIN_MARGIN = 8
"""Smallest margin in pixels."""
POINT_RADIUS = 0.02
"""Radius of the disc around a point that is fixed, as a share of the view's diagonal."""
INITIAL_RADIUS = 0.06
"""Radius of the initial foreground around a point without a box, in the same unit."""
MIN_SIDE = 32
"""Smallest `max_side` in pixels."""
MIN_PIXELS = 16
"""Smallest number of pixels of foreground, and of background, that colours are modelled with."""
MIN_KEPT_SHARE = 0.01
"""GrabCut has failed if it keeps a smaller share of the initial foreground."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrabCut(Segmenter):
    """Segments the object in a box, or around points, by GrabCut.

    With a box, its pixels are the initial foreground, and pixels outside stay background. Without
    a box, discs around the positive points are the initial foreground, and any pixel may become
    foreground. Smaller discs around positive and negative points are fixed. Phrases are not used.

    If GrabCut fails, or there are too few pixels to model colours, the mask is the initial
    foreground. The mask is empty if the prompt has neither box nor positive point, or lies outside
    the image.
    """

    iterations: int = 3
    max_side: int = 320
    """The crop around a box is shrunk until its longest side is at most this many pixels."""

    name = "grabcut"

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """Return one boolean mask (height × width of `image`) per prompt."""
        return [self._cut(image, prompt) for prompt in prompts]

    def _cut(self, image: Frame, prompt: ObjectPrompt) -> BoolArray:
        """Return the mask of one prompt, cut out in a shrunken view and enlarged again."""
        size = (image.shape[1], image.shape[0])
        mask = np.zeros((size[1], size[0]), dtype=np.bool_)
        full_image = Rectangle(0, 0, *size)
        region = full_image if prompt.box is None else rectangle(prompt.box, size)
        positive = points_inside(prompt.positive, size)
        if region is None or (prompt.box is None and not positive):
            return mask
        view = View.of_region(region, size, max_side=self.max_side)
        trimap = view.trimap(
            region if prompt.box is not None else None,
            view.to_pixels(positive),
            view.to_pixels(points_inside(prompt.negative, size)),
        )
        cut = self._run_grabcut(view.shrink(image), trimap)
        if cut is None and prompt.box is not None:
            mask[region.slices] = True
        else:
            grown = view.enlarge(foreground(trimap) if cut is None else cut)
            mask[region.slices] = grown[view.region_slices(region)]
        return mask

    def _run_grabcut(self, image: Frame, trimap: Trimap) -> BoolArray | None:
        """Return GrabCut's mask for a trimap; None if it fails."""
        start = foreground(trimap)
        if min(np.count_nonzero(start), np.count_nonzero(~start)) < MIN_PIXELS:
            return None
        cut = trimap.copy()
        models = np.zeros((1, 65)), np.zeros((1, 65))  # which OpenCV fills with its colour models
        cv2.setRNGSeed(SEED)
        bgr = np.ascontiguousarray(image[..., ::-1])
        cv2.grabCut(bgr, cut, None, *models, self.iterations, cv2.GC_INIT_WITH_MASK)  # type: ignore[call-overload]
        result = foreground(cut)
        collapsed = np.count_nonzero(result) < MIN_KEPT_SHARE * np.count_nonzero(start)
        return None if collapsed else result


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
        """Return the view of a region and its margin, clipped to an image of (width, height)."""
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
        """Return the crop of an image, resized to the view's size."""
        part = image[self.crop.slices]
        return cv2.resize(part, self.size, interpolation=cv2.INTER_AREA).astype(np.uint8)

    def enlarge(self, mask: BoolArray) -> BoolArray:
        """Return a mask of the view, resized to the crop's size."""
        size = (self.crop.width, self.crop.height)
        soft = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
        return np.asarray(soft >= 0.5, dtype=np.bool_)

    def region_slices(self, region: Rectangle) -> tuple[slice, slice]:
        """Return the slices of the crop that hold a region of the image."""
        return Rectangle(
            region.left - self.crop.left,
            region.top - self.crop.top,
            region.right - self.crop.left,
            region.bottom - self.crop.top,
        ).slices

    def to_pixels(self, points: Sequence[Point]) -> list[tuple[int, int]]:
        """Return the pixels (x, y) of the view at points of the image; some may lie outside."""
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
        """Return GrabCut's initial trimap of the view.

        Args:
            region: The box in pixels of the image; None without a box.
            positive: Pixels of the view at positive points.
            negative: Pixels of the view at negative points.
        """
        near, far = self._distance(positive), self._distance(negative)
        radius = max(1.0, POINT_RADIUS * self.diagonal)
        if region is None:
            start = (near <= max(1.0, INITIAL_RADIUS * self.diagonal)) & (near < far)
            trimap = np.where(start, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
        else:
            inside = np.zeros((self.crop.height, self.crop.width), dtype=np.uint8)
            inside[self.region_slices(region)] = 1
            start = cv2.resize(inside, self.size, interpolation=cv2.INTER_NEAREST) > 0
            trimap = np.where(start, cv2.GC_PR_FGD, cv2.GC_BGD).astype(np.uint8)
        trimap[(near <= radius) & (near < far) & start] = cv2.GC_FGD
        trimap[(far <= radius) & (far <= near)] = cv2.GC_BGD
        return trimap

    def _distance(self, pixels: Sequence[tuple[int, int]]) -> NDArray[np.float32]:
        """Return each pixel's distance to the nearest of `pixels`; infinite if there are none."""
        x, y = np.meshgrid(np.arange(self.size[0]), np.arange(self.size[1]))
        nearest = np.full(x.shape, np.inf, dtype=np.float32)
        for pixel in pixels:
            nearest = np.minimum(nearest, np.hypot(x - pixel[0], y - pixel[1]))
        return nearest.astype(np.float32)


def foreground(trimap: Trimap) -> BoolArray:
    """Return the pixels that a trimap marks as sure or probable foreground."""
    return np.isin(trimap, (cv2.GC_FGD, cv2.GC_PR_FGD))

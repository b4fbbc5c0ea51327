"""Segment a drawing into regions of one colour by the watershed transform.

The method is Beucher and Lantuéjoul's watershed as OpenCV computes it. The markers are areas where
the colour hardly changes. A region along much of the image's border is background. The regions of
a photograph are only pieces of its objects; `is_drawing` tells drawings from photographs.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from harness.masks import BoolArray
from harness.media import Frame

Labels = NDArray[np.int32]
Floats = NDArray[np.float32]

MAX_FLAT_SLOPE = 5.0  # CIELAB units per pixel in a smoothed image: a larger change is an edge
MARKER_SHARE = 0.0004  # of the image's pixels: a smaller flat area is not a marker
MIN_SHARE = 0.0012  # of the image's pixels: a smaller region is noise
BORDER_SHARE = 0.2  # of the image's border: a region along more of it is background
RIM_PIXELS = 2  # pixels beside a region that may be its rim
RIM_CONTRAST = 30.0  # CIELAB: a pixel that differs more from the background is part of a rim
MAX_DRAWING_SPREAD = 3.0
"""CIELAB distance: in a drawing, the median spread of the regions' colours is below this (at most
1.9 on 55 images of the generated world, at least 4 on 8 photographs)."""
MAX_SIDE = 480  # pixels of the shrunk image


def flat_regions(image: Frame) -> list[BoolArray]:
    """Return the masks (height × width) of the regions without the background, largest first."""
    height, width = image.shape[:2]
    scale = min(1.0, MAX_SIDE / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    smooth = _smooth(small)
    labels = _region_labels(smooth)
    areas = np.bincount(labels.ravel())
    border = np.concatenate((labels[0], labels[-1], labels[:, 0], labels[:, -1]))
    border_counts = np.bincount(border, minlength=areas.size)
    is_background = border_counts > BORDER_SHARE * border.size
    is_background[int(border_counts.argmax())] = True
    is_region = (areas >= MIN_SHARE * labels.size) & ~is_background
    labels = _with_rims(labels, is_region, int(border_counts.argmax()), lab_of(small))
    order = sorted(np.flatnonzero(is_region).tolist(), key=lambda label: -int(areas[label]))
    return [_enlarged(labels == label, (width, height)) for label in order]


def is_drawing(image: Frame, regions: Sequence[BoolArray]) -> bool:
    """Return True if most regions have one colour each, or if there are no regions."""
    spreads = [colour_of(image, region)[1] for region in regions]
    return not spreads or float(np.median(spreads)) < MAX_DRAWING_SPREAD


def colour_of(image: Frame, mask: BoolArray) -> tuple[NDArray[np.float64], float]:
    """Return the inner pixels' median colour (CIELAB) and their median distance from it."""
    pixels = lab_of(image[inner(mask)][None])[0].astype(np.float64)
    median = np.median(pixels, axis=0)
    return median, float(np.median(np.linalg.norm(pixels - median, axis=1)))


def inner(mask: BoolArray) -> BoolArray:
    """Return a mask without its outermost two pixels, whose colours mix with the surroundings.

    If no pixel would be left, return the mask itself.
    """
    core = cv2.erode(np.pad(mask.astype(np.uint8), 2), np.ones((5, 5), np.uint8))[2:-2, 2:-2] != 0
    return core if core.any() else mask


def lab_of(image: NDArray[np.uint8]) -> Floats:
    """Convert an RGB image to CIELAB, with L from 0 to 100."""
    return np.asarray(cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), np.float32)


def _smooth(image: Frame) -> Floats:
    """Return the image in CIELAB, smoothed within regions but not across edges."""
    smoothed = cv2.bilateralFilter(lab_of(image), d=5, sigmaColor=10, sigmaSpace=3)
    return np.asarray(smoothed, np.float32)


def _region_labels(smooth: Floats) -> Labels:
    """Return the number of each pixel's region (height × width)."""
    gradients = [cv2.Sobel(smooth, cv2.CV_32F, *axis, ksize=3) / 8 for axis in ((1, 0), (0, 1))]
    slope = np.sqrt(sum(np.square(gradient).sum(axis=2) for gradient in gradients))
    flat = (slope < MAX_FLAT_SLOPE).astype(np.uint8)
    n_markers, markers = cv2.connectedComponents(flat, connectivity=4, ltype=cv2.CV_32S)
    sizes = np.bincount(markers.ravel(), minlength=n_markers)
    is_too_small = sizes < max(6, MARKER_SHARE * flat.size)  # in pixels
    markers[is_too_small[markers]] = 0
    if not markers.any():
        return np.zeros(flat.shape, dtype=np.int32)
    lightness, a, b = cv2.split(smooth)
    bytes_image = np.clip(np.dstack([lightness * 2.55, a + 128, b + 128]), 0, 255).astype(np.uint8)
    flooded = cv2.watershed(bytes_image, markers.astype(np.int32))
    # Pixels on the lines between regions go to the nearest region.
    nearest = ndimage.distance_transform_edt(
        flooded <= 0, return_distances=False, return_indices=True
    )
    return np.asarray(flooded[tuple(nearest)], dtype=np.int32)


def _with_rims(labels: Labels, is_region: NDArray[np.bool_], ground: int, lab: Floats) -> Labels:
    """Move the rims of regions from the background to the regions.

    A shape's outline is often flooded half from the background. A background pixel next to a
    region belongs to its rim if its colour differs from the background around it.

    Args:
        labels: Region number of each pixel.
        is_region: True at the numbers of regions that are not background.
        ground: Number of the background.
        lab: The image in CIELAB.
    """
    background = labels == ground
    if not background.any() or not is_region.any():
        return labels
    # the mean colour of the background pixels within 25 × 25 pixels
    blurred = cv2.blur(
        np.dstack([background.astype(np.float32)[..., None] * lab, background]), (25, 25)
    )
    background_colour = blurred[..., :3] / np.maximum(blurred[..., 3:], 1e-3)
    differs = background & (np.linalg.norm(lab - background_colour, axis=2) > RIM_CONTRAST)
    # each pixel's distance to the regions, and the nearest pixel of one
    distance, nearest = ndimage.distance_transform_edt(~is_region[labels], return_indices=True)
    rim = differs & (distance <= RIM_PIXELS)
    return np.where(rim, labels[tuple(nearest)], labels).astype(np.int32)


def _enlarged(region: BoolArray, size: tuple[int, int]) -> BoolArray:
    """Return the mask of a region, resized to (width, height)."""
    if (region.shape[1], region.shape[0]) == size:
        return region
    enlarged = cv2.resize(region.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST)
    return np.asarray(enlarged != 0, dtype=np.bool_)

"""Segmentation by flooding from flat places: a segmenter without weights or prompts.

Flat places (where colours hardly change) are flooded until the floods meet at edges: Beucher and
Lantuéjoul's watershed, as OpenCV computes it. A region along much of the image's border is
background; the others are instances.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.model import Propagator, Segmenter
from harness.models.factory import GRABCUT, build_propagator, build_segmenter
from harness.models.nodes.instances import Seen, carried, prompted
from harness.node import Instances, Kind, Node, NodeKind, Output, detections_of
from harness.spec import Spec

Labels = NDArray[np.int32]

FLOW = Spec("flow")
FLAT = 5.0  # CIELAB units a pixel in a smoothed image: more is an edge
MARKER_SHARE = 0.0004  # of the image's pixels: a smaller flat place is not flooded
LEAST_SHARE = 0.0012  # of the image's pixels: a smaller region is noise
BORDER_SHARE = 0.2  # of the image's border: a region along more of it is background
MAX_SIDE = 480  # pixels of the shrunk image


@dataclass(frozen=True, slots=True, kw_only=True)
class Watershed(Node):
    """Regions within edges that are not background, or what a detector's boxes hold."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.INSTANCES,
        accepts=frozenset({Kind.DETECTIONS}),
        summary="regions within edges",
    )
    segmenter: Segmenter
    propagator: Propagator
    most: int

    @property
    def name(self) -> str:
        """`watershed`."""
        return "watershed"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Instances:
        """Segment the described frames, and carry what is found to all frames."""
        if detections_of(inputs):
            return prompted(self.segmenter, self.propagator, media, indices, inputs)

        def look(index: int) -> list[Seen]:
            return [Seen(mask) for mask in regions(media.frame(index))[: self.most]]

        return carried(look, self.propagator, media, indices)


def watershed(*, segmenter: Spec = GRABCUT, propagator: Spec = FLOW, most: int = 24) -> Watershed:
    """Regions within edges, by OpenCV; no weights. For drawings: a photograph has many regions.

    Args:
        segmenter: What turns a detector's boxes into masks.
        propagator: What carries masks through a video.
        most: Largest number of regions of a frame.
    """
    return Watershed(
        segmenter=build_segmenter(segmenter), propagator=build_propagator(propagator), most=most
    )


def regions(image: Frame) -> list[BoolArray]:
    """Masks (height × width) of the regions that are not background, the largest first."""
    height, width = image.shape[:2]
    scale = min(1.0, MAX_SIDE / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    labels = _flooded(small)
    areas = np.bincount(labels.ravel())
    border = np.concatenate((labels[0], labels[-1], labels[:, 0], labels[:, -1]))
    along = np.bincount(border, minlength=areas.size)
    kept = (areas >= LEAST_SHARE * labels.size) & (along <= BORDER_SHARE * border.size)
    kept[int(along.argmax())] = False
    order = sorted(np.flatnonzero(kept).tolist(), key=lambda label: -int(areas[label]))
    return [_grown(labels == label, (width, height)) for label in order]


def slope(image: Frame) -> NDArray[np.float32]:
    """Change of colour a pixel, in CIELAB units, height × width, of an RGB image."""
    steps = [cv2.Sobel(_smooth(image), cv2.CV_32F, *way, ksize=3) / 8 for way in ((1, 0), (0, 1))]
    return np.sqrt(sum(np.square(step).sum(axis=2) for step in steps)).astype(np.float32)


def _smooth(image: Frame) -> NDArray[np.float32]:
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    return cv2.bilateralFilter(lab, d=5, sigmaColor=10, sigmaSpace=3).astype(np.float32)


def _flooded(image: Frame) -> Labels:
    """The number of each pixel's region."""
    flat = (slope(image) < FLAT).astype(np.uint8)
    count, markers = cv2.connectedComponents(flat, connectivity=4, ltype=cv2.CV_32S)
    sizes = np.bincount(markers.ravel(), minlength=count)
    markers[(sizes < max(6, MARKER_SHARE * flat.size))[markers]] = 0
    if not markers.any():
        return np.zeros(flat.shape, dtype=np.int32)
    lightness, a, b = cv2.split(_smooth(image))
    shown = np.clip(np.dstack([lightness * 2.55, a + 128, b + 128]), 0, 255).astype(np.uint8)
    flooded = cv2.watershed(shown, markers.astype(np.int32))
    # Pixels of the lines between floods belong to the nearest flood.
    places = ndimage.distance_transform_edt(
        flooded <= 0, return_distances=False, return_indices=True
    )
    return np.asarray(flooded[tuple(places)], dtype=np.int32)


def _grown(part: BoolArray, size: tuple[int, int]) -> BoolArray:
    if (part.shape[1], part.shape[0]) == size:
        return part
    return cv2.resize(part.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) != 0

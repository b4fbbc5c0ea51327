"""The node `occlusion_depth`: orders the regions of an image in depth, without a network.

A drawing of flat shapes has an order in depth, but no distances. Its regions are those of
`flat_regions`. Region A covers region B if A takes more of B's convex hull than B of A's. Regions
that do not cover each other are ordered by size and height: a larger and lower region is nearer
(Gibson's relative size and height in the field). The background is farthest. In a photograph, whose
regions are only pieces of objects, each row is nearer than the row above it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np

from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.models.nodes.flat_regions import flat_regions, is_drawing
from harness.node import DepthMaps, Floats, Kind, Node, NodeKind, Output

MEANING = "relative order from occlusion, size and height, 0 to 1, larger is nearer"
MIN_BITE_SHARE = 0.06
"""Region A covers B only if A takes more pixels of B's hull than this share of A's area and of the
hull's area, whichever is smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OcclusionDepth(Node):
    """Gives the relative depth of each pixel's region, from 0 (background) to 1 (nearest)."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.DEPTH, summary="order in depth by occlusion, size and height"
    )

    name = "occlusion_depth"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> DepthMaps:
        """Order the regions of each described frame."""
        return DepthMaps({index: order_map(media.frame(index)) for index in indices}, MEANING)


def occlusion_depth() -> OcclusionDepth:
    """Order in depth from occlusion, size and height, by OpenCV; no weights."""
    return OcclusionDepth()


def order_map(image: Frame) -> Floats:
    """Return the order in depth of each pixel (height × width), 0: background, 1: nearest."""
    height, width = image.shape[:2]
    regions = flat_regions(image)
    if not is_drawing(image, regions):
        rows = np.linspace(0, 1, height, dtype=np.float32)
        return np.repeat(rows[:, None], width, axis=1)
    depth = np.zeros((height, width), dtype=np.float32)
    order = from_far(regions)
    for rank, region in enumerate(order, start=1):
        depth[regions[region]] = rank / len(order)
    return depth


def from_far(regions: Sequence[BoolArray]) -> list[int]:
    """Return the indices of masks (height × width) from the farthest to the nearest."""
    if not regions:
        return []
    height = regions[0].shape[0]
    hulls = [_hull(region) for region in regions]
    sizes = [int(region.sum()) for region in regions]
    lowest_rows = [float(np.flatnonzero(region.any(axis=1))[-1]) / height for region in regions]
    nearness = [size / max(sizes) + row for size, row in zip(sizes, lowest_rows, strict=True)]
    behind: dict[int, set[int]] = {index: set() for index in range(len(regions))}
    for front, region in enumerate(regions):
        for back in range(len(regions)):
            if front == back:
                continue
            # pixels that each region takes from the other's hull
            bite = int((region & hulls[back]).sum())
            bitten = int((regions[back] & hulls[front]).sum())
            if bite > bitten and bite > MIN_BITE_SHARE * min(sizes[front], int(hulls[back].sum())):
                behind[front].add(back)
    remaining, ordered = set(behind), []
    while remaining:
        # Regions that cover no remaining region; all of them if they cover each other in a circle.
        free = [index for index in remaining if not behind[index] & remaining] or list(remaining)
        farthest = min(free, key=lambda index: (nearness[index], index))
        ordered.append(farthest)
        remaining.remove(farthest)
    return ordered


def _hull(region: BoolArray) -> BoolArray:
    """Return the convex hull of a mask, as a mask."""
    points = cv2.findNonZero(region.astype(np.uint8))
    hull = np.zeros(region.shape, np.uint8)
    cv2.fillConvexPoly(hull, cv2.convexHull(points), 1)
    return np.asarray(hull != 0, dtype=np.bool_)

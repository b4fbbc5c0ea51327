"""Order the regions of an image in depth by occlusion, size and height.

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
BITE = 0.06
"""Region A covers B only if A takes more pixels of B's hull than this share of A's area and of the
hull's area, whichever is smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OcclusionDepth(Node):
    """Relative depth of regions, from 0 (background) to 1 (nearest)."""

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
    for place, part in enumerate(order, start=1):
        depth[regions[part]] = place / len(order)
    return depth


def from_far(parts: Sequence[BoolArray]) -> list[int]:
    """Return the indices of masks (height × width) from the farthest to the nearest."""
    if not parts:
        return []
    height = parts[0].shape[0]
    hulls = [_hull(part) for part in parts]
    sizes = [int(part.sum()) for part in parts]
    lows = [float(np.flatnonzero(part.any(axis=1))[-1]) / height for part in parts]
    nearness = [size / max(sizes) + low for size, low in zip(sizes, lows, strict=True)]
    behind: dict[int, set[int]] = {index: set() for index in range(len(parts))}
    for front, part in enumerate(parts):
        for back in range(len(parts)):
            if front == back:
                continue
            bite = int((part & hulls[back]).sum())
            bitten = int((parts[back] & hulls[front]).sum())
            if bite > bitten and bite > BITE * min(sizes[front], int(hulls[back].sum())):
                behind[front].add(back)
    remaining, ordered = set(behind), []
    while remaining:
        # Regions that cover no remaining region; all of them if they cover each other in a circle.
        free = [index for index in remaining if not behind[index] & remaining] or list(remaining)
        farthest = min(free, key=lambda index: (nearness[index], index))
        ordered.append(farthest)
        remaining.remove(farthest)
    return ordered


def _hull(part: BoolArray) -> BoolArray:
    points = cv2.findNonZero(part.astype(np.uint8))
    hull = np.zeros(part.shape, np.uint8)
    cv2.fillConvexPoly(hull, cv2.convexHull(points), 1)
    return np.asarray(hull != 0, dtype=np.bool_)

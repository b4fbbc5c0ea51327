"""Order in depth from images alone: what covers, what is large and what is low is near.

For drawings of flat shapes there is no depth but order. Regions are those of
`flat_regions`. One that bites into another's convex hull more than that one into its own is in
front; where nothing covers anything, a larger and lower region counts as nearer (Gibson's relative
size and height in the field). The background is farthest. Of a photograph only the height in the
field is used, row by row: its regions are pieces of things.
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
"""Smallest share, of a region or of another's hull, at which the region covers the other one."""


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
    """The depth of each pixel (height × width) from 0, the background, to 1, the nearest."""
    height, width = image.shape[:2]
    parts = flat_regions(image)
    if not is_drawing(image, parts):
        rows = np.linspace(0, 1, height, dtype=np.float32)
        return np.repeat(rows[:, None], width, axis=1)
    depth = np.zeros((height, width), dtype=np.float32)
    ordered = from_far(parts)
    for place, part in enumerate(ordered, start=1):
        depth[parts[part]] = place / len(ordered)
    return depth


def from_far(parts: Sequence[BoolArray]) -> list[int]:
    """Indices of masks (height × width) from the farthest to the nearest."""
    if not parts:
        return []
    height = parts[0].shape[0]
    hulls = [_hull(part) for part in parts]
    sizes = [int(part.sum()) for part in parts]
    lows = [float(np.flatnonzero(part.any(axis=1))[-1]) / height for part in parts]
    cue = [size / max(sizes) + low for size, low in zip(sizes, lows, strict=True)]
    behind: dict[int, set[int]] = {index: set() for index in range(len(parts))}
    for front, part in enumerate(parts):
        for back in range(len(parts)):
            if front == back:
                continue
            bite = int((part & hulls[back]).sum())
            bitten = int((parts[back] & hulls[front]).sum())
            if bite > bitten and bite > BITE * min(sizes[front], int(hulls[back].sum())):
                behind[front].add(back)
    left, ordered = set(behind), []
    while left:
        # Free of what must be farther; where cues contradict each other, any may be taken.
        free = [index for index in left if not behind[index] & left] or list(left)
        farthest = min(free, key=lambda index: (cue[index], index))
        ordered.append(farthest)
        left.remove(farthest)
    return ordered


def _hull(part: BoolArray) -> BoolArray:
    points = cv2.findNonZero(part.astype(np.uint8))
    drawn = np.zeros(part.shape, np.uint8)
    cv2.fillConvexPoly(drawn, cv2.convexHull(points), 1)
    return np.asarray(drawn != 0, dtype=np.bool_)

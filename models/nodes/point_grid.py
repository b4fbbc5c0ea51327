"""Automatic masks from a promptable segmenter: the class behind the nodes `sam2` and `pocket_sam`.

As in SAM's automatic mask generator, every point of the grid is a prompt; very large and very small
masks and duplicates are dropped. A mask is kept if enough of the points inside it give the same
mask, because not every segmenter predicts the quality of its masks. Some networks answer a point
with only a part of the object (`joins`): then overlapping masks are grouped, and the box around
each group is the prompt of a second request.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.models.nodes.instances import Seen, carried, mask_overlap, prompted
from harness.models.tracks import extent
from harness.node import Instances, Kind, Node, NodeKind, Output, detections_of
from harness.segmentation import ObjectPrompt, Propagator, Segmenter
from harness.types import Point

MIN_SAME_IOU = 0.7
"""Smallest IoU at which the masks of two points count as the same mask."""
MIN_PART_SHARE = 0.5
"""Smallest share of the smaller mask inside the other, at which both are parts of one object."""
MIN_AGREED_SHARE = 0.3
"""Smallest share of the points inside a mask that must give the same mask."""
MIN_SHARE = 0.001
"""Smallest area of a mask, as a share of the image."""
MAX_SHARE = 0.6
"""Largest area of a mask, as a share of the image."""
BATCH_SIZE = 64
"""Number of prompts in one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointGrid(Node):
    """Finds instances: the objects in a detector's boxes, or else the masks of a grid of points."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.INSTANCES,
        accepts=frozenset({Kind.DETECTIONS}),
        summary="instance segmentation",
    )
    label: str
    """Name of the plugin."""
    segmenter: Segmenter
    propagator: Propagator
    grid: int
    """Points per side of the grid."""
    joins: bool
    """True if a point's mask may be only a part of an object (see above)."""
    min_votes: int
    """Smallest number of points that must give the same mask."""
    max_masks: int
    """Largest number of masks per frame."""

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.label

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Instances:
        """Segment the described frames and propagate the masks to all frames."""
        if detections_of(inputs):
            return prompted(self.segmenter, self.propagator, media, indices, inputs)
        return carried(
            lambda index: self._grid_objects(media.frame(index)), self.propagator, media, indices
        )

    def _grid_objects(self, image: Frame) -> list[Seen]:
        """Return the masks that enough points agree on, the mask with the most votes first."""
        height, width = image.shape[:2]
        steps = [(number + 0.5) / self.grid for number in range(self.grid)]
        points = [Point(x * width, y * height) for y in steps for x in steps]
        votes: list[list[BoolArray]] = []  # the masks of each object, one for each point
        for start in range(0, len(points), BATCH_SIZE):
            prompts = [
                ObjectPrompt(positive=(point,)) for point in points[start : start + BATCH_SIZE]
            ]
            masks = self.segmenter.segment(image, prompts)
            for mask, point in zip(masks, points[start:], strict=False):
                holds_point = mask[int(point.y), int(point.x)]
                if not (holds_point and MIN_SHARE <= mask.mean() <= MAX_SHARE):
                    continue
                for group in votes:
                    if self._is_same_object(group[0], mask):
                        group.append(mask)
                        break
                else:  # of no object so far
                    votes.append([mask])
        votes.sort(key=lambda group: (-len(group), -int(group[0].sum())))
        if self.joins:
            return self._joined(image, votes)
        objects: list[Seen] = []
        for group in votes:
            mask = _agreed(group)
            inside = sum(bool(mask[int(point.y), int(point.x)]) for point in points)
            share = len(group) / max(inside, 1)
            if len(group) >= min(self.min_votes, inside) and share >= MIN_AGREED_SHARE:
                objects.append(Seen(mask, score=round(min(share, 1.0), 3)))
        return objects[: self.max_masks]

    def _is_same_object(self, first: BoolArray, second: BoolArray) -> bool:
        """Return True if two masks belong to one object."""
        if self.joins:
            smaller = min(int(first.sum()), int(second.sum()))
            return int((first & second).sum()) >= MIN_PART_SHARE * smaller
        return mask_overlap(first, second) >= MIN_SAME_IOU

    def _joined(self, image: Frame, votes: Sequence[Sequence[BoolArray]]) -> list[Seen]:
        """Return the mask of the box around each group of parts, without duplicates."""
        prompts: list[ObjectPrompt] = []
        for group in votes:
            box = extent(np.logical_or.reduce(group))
            if box is not None:
                prompts.append(ObjectPrompt(box=box))
        joined: list[Seen] = []
        for mask in self.segmenter.segment(image, prompts):
            fits = MIN_SHARE <= mask.mean() <= MAX_SHARE
            if fits and all(mask_overlap(mask, old.mask) < MIN_PART_SHARE for old in joined):
                joined.append(Seen(mask))
        return joined[: self.max_masks]


def _agreed(masks: Sequence[BoolArray]) -> BoolArray:
    """Return the mask with the largest sum of IoUs with the others, among the first eight."""
    candidates = masks[:8]
    return max(
        candidates, key=lambda first: sum(mask_overlap(first, second) for second in candidates)
    )

"""Automatic masks from a promptable segmenter: a grid of points, and what most of them agree on.

As in the automatic mask generator of SAM, every point of a grid is a prompt, masks that are nearly
whole images or specks are dropped, and doubles are left out. A mask that most of the points in it
give is stable, which takes the place of the predicted quality that not every segmenter tells. For
a network that answers a point with a part of the object (`joins`), overlapping masks are joined
and their box is the prompt of a second, last request.
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

SAME = 0.7
"""IoU from which on the masks of two points are the same mask."""
SAME_PART = 0.5
"""Share of the smaller of two masks inside the other at which they are parts of one object."""
AGREED = 0.3
"""Smallest share of the points inside a mask whose own masks agree with it."""
MIN_SHARE = 0.001
MAX_SHARE = 0.6
BATCH = 64  # prompts at once


@dataclass(frozen=True, slots=True, kw_only=True)
class PointGrid(Node):
    """Everything that a segmenter finds by itself, or what a detector's boxes hold."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.INSTANCES,
        accepts=frozenset({Kind.DETECTIONS}),
        summary="instance segmentation",
    )
    label: str
    segmenter: Segmenter
    propagator: Propagator
    grid: int
    joins: bool
    min_votes: int
    max_masks: int

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.label

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Instances:
        """Segment the described frames, and carry what is found to all frames."""
        if detections_of(inputs):
            return prompted(self.segmenter, self.propagator, media, indices, inputs)
        return carried(
            lambda index: self._everything(media.frame(index)), self.propagator, media, indices
        )

    def _everything(self, image: Frame) -> list[Seen]:
        """The masks that most points agree on, the one with most votes first."""
        height, width = image.shape[:2]
        steps = [(place + 0.5) / self.grid for place in range(self.grid)]
        points = [Point(x * width, y * height) for y in steps for x in steps]
        votes: list[list[BoolArray]] = []
        for start in range(0, len(points), BATCH):
            prompts = [ObjectPrompt(positive=(point,)) for point in points[start : start + BATCH]]
            masks = self.segmenter.segment(image, prompts)
            for mask, point in zip(masks, points[start:], strict=False):
                holds = mask[int(point.y), int(point.x)]
                if not (holds and MIN_SHARE <= mask.mean() <= MAX_SHARE):
                    continue
                for group in votes:
                    if self._one(group[0], mask):
                        group.append(mask)
                        break
                else:
                    votes.append([mask])
        votes.sort(key=lambda group: (-len(group), -int(group[0].sum())))
        if self.joins:
            return self._joined(image, votes)
        seen: list[Seen] = []
        for group in votes:
            mask = _agreed(group)
            inside = sum(bool(mask[int(point.y), int(point.x)]) for point in points)
            share = len(group) / max(inside, 1)
            if len(group) >= min(self.min_votes, inside) and share >= AGREED:
                seen.append(Seen(mask, score=round(min(share, 1.0), 3)))
        return seen[: self.max_masks]

    def _one(self, known: BoolArray, mask: BoolArray) -> bool:
        """Return True if two masks are of one object."""
        if self.joins:
            smaller = min(int(known.sum()), int(mask.sum()))
            return int((known & mask).sum()) >= SAME_PART * smaller
        return mask_overlap(known, mask) >= SAME

    def _joined(self, image: Frame, votes: Sequence[Sequence[BoolArray]]) -> list[Seen]:
        """The mask of the box around each group of parts, without doubles."""
        prompts: list[ObjectPrompt] = []
        for group in votes:
            box = extent(np.logical_or.reduce(group))
            if box is not None:
                prompts.append(ObjectPrompt(box=box))
        seen: list[Seen] = []
        for mask in self.segmenter.segment(image, prompts):
            fits = MIN_SHARE <= mask.mean() <= MAX_SHARE
            if fits and all(mask_overlap(mask, kept.mask) < SAME_PART for kept in seen):
                seen.append(Seen(mask))
        return seen[: self.max_masks]


def _agreed(masks: Sequence[BoolArray]) -> BoolArray:
    """The mask that overlaps the others most."""
    tried = masks[:8]
    return max(tried, key=lambda first: sum(mask_overlap(first, second) for second in tried))

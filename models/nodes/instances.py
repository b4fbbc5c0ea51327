"""From masks in single frames to instances in every frame."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from harness.errors import ModelError
from harness.masks import BoolArray, Rle, Track, rles_of
from harness.media import Media
from harness.model import ObjectPrompt, Propagator, Segmenter
from harness.node import Instance, Instances, Output, detections_of
from harness.types import Box

SAME = 0.5
"""Share of a mask's pixels that known objects cover from which on it is none of its own."""


class Seen(NamedTuple):
    """An object as it was seen in one frame."""

    mask: BoolArray
    label: str = ""
    score: float | None = None


Look: TypeAlias = Callable[[int], Sequence[Seen]]
"""Returns the objects of one frame."""


def carried(look: Look, propagator: Propagator, media: Media, indices: Sequence[int]) -> Instances:
    """The objects of the described frames, each followed through all frames.

    An object is new where less than half of it is covered by those that are known; it has no mask
    in frames up to the last described one before, where it was not seen.
    """
    found: list[Instance] = []
    before = -1
    for index in indices:
        known = [one.track[index] for one in found]
        new = [one for one in look(index) if one.mask.any() and not _covered(one.mask, known)]
        if new:
            tracks = propagated(propagator, media, index, [one.mask for one in new])
            for one, track in zip(new, tracks, strict=True):
                found.append(Instance(_from(track, before + 1), one.label, one.score))
        before = index
    return Instances(tuple(found))


def prompted(
    segmenter: Segmenter,
    propagator: Propagator,
    media: Media,
    indices: Sequence[int],
    inputs: Sequence[Output],
) -> Instances:
    """The objects that a detector's boxes hold, each followed through all frames."""
    boxes = detections_of(inputs)

    def look(index: int) -> list[Seen]:
        here = [one for one in boxes if one.frame == index]
        if not here:
            return []
        prompts = [ObjectPrompt(box=one.box) for one in here]
        masks = segmenter.segment(media.frame(index), prompts)
        return [
            Seen(mask.astype(np.bool_), one.label, one.score)
            for mask, one in zip(masks, here, strict=True)
        ]

    return carried(look, propagator, media, indices)


def box_overlap(one: Box, other: Box) -> float:
    """Intersection over union of two boxes."""
    across = min(one.right, other.right) - max(one.left, other.left)
    down = min(one.bottom, other.bottom) - max(one.top, other.top)
    shared = max(0.0, across) * max(0.0, down)
    areas = ((box.right - box.left) * (box.bottom - box.top) for box in (one, other))
    return shared / max(sum(areas) - shared, 1e-9)


def mask_overlap(one: BoolArray, other: BoolArray) -> float:
    """Intersection over union; 0 where both are empty."""
    union = int((one | other).sum())
    return int((one & other).sum()) / union if union else 0.0


def _covered(mask: BoolArray, known: Sequence[BoolArray]) -> bool:
    size = int(mask.sum())
    return any(
        int((mask & other).sum()) > SAME * size or mask_overlap(mask, other) > SAME
        for other in known
    )


def propagated(
    propagator: Propagator, media: Media, start: int, masks: Sequence[BoolArray]
) -> list[Track]:
    """Masks of frame `start` in every frame of the medium.

    Raises:
        ModelError: the propagator gives another number of tracks.
    """
    if len(media) == 1:
        return [Track.of_one_mask(mask, 1) for mask in masks]
    tracks = propagator.propagate(media, start, masks)
    if len(tracks) != len(masks):
        raise ModelError(
            f"propagator {propagator.name}",
            expected=f"{len(masks)} tracks",
            found=str(len(tracks)),
        )
    return [
        track if isinstance(track, Track) else Track.from_rles(rles_of(track)) for track in tracks
    ]


def _from(track: Track, first: int) -> Track:
    """The track with empty masks before frame `first`."""
    if first == 0 or len(track) == 1:
        return track
    nothing = Rle.empty(track.height, track.width)
    return Track.from_rles([nothing] * first + list(track.rles[first:]))

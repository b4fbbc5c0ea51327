"""Turn masks of single frames into instances with a mask in every frame."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from harness.masks import BoolArray, Rle, Track, rles_of
from harness.media import Media
from harness.models.tracks import tracks_of
from harness.node import (
    Features,
    Floats,
    Instance,
    Instances,
    Output,
    detections_of,
    instances_of,
)
from harness.segmentation import ObjectPrompt, Propagator, Segmenter

AGAIN = 0.3
"""Smallest IoU of a new mask with a known object's propagated mask, to be the same object."""
SAME = 0.5
"""If a known object covers a larger share of a mask's pixels, the mask is not a new object."""


class Seen(NamedTuple):
    """The observation of an object in one frame."""

    mask: BoolArray
    label: str = ""
    score: float | None = None


Look: TypeAlias = Callable[[int], Sequence[Seen]]
"""Function that returns the objects of the frame with an index."""


def carried(look: Look, propagator: Propagator, media: Media, indices: Sequence[int]) -> Instances:
    """Return the objects of the described frames, each propagated to all frames.

    A mask is a new object unless a known object covers more than half of it. A new object has
    empty masks up to the previous described frame, because it was not observed there.
    """
    instances: list[Instance] = []
    before = -1
    for index in indices:
        known = [instance.track[index] for instance in instances]
        new = [seen for seen in look(index) if seen.mask.any() and not _covered(seen.mask, known)]
        if new:
            tracks = propagated(propagator, media, index, [seen.mask for seen in new])
            for seen, track in zip(new, tracks, strict=True):
                instances.append(Instance(_from(track, before + 1), seen.label, seen.score))
        before = index
    return Instances(tuple(instances))


def renewed(look: Look, propagator: Propagator, media: Media, indices: Sequence[int]) -> Instances:
    """Return the objects of the described frames, detected in each one and propagated in between.

    This suits propagators that drift. Known objects are propagated to the next described frame and
    matched with the masks found there; an unmatched mask is a new object. An unmatched known
    object has empty masks until it is matched again.
    """
    from scipy.optimize import linear_sum_assignment  # half of the start of a node's process

    rows: list[_Row] = []
    before = -1
    for index, end in zip(indices, (*indices[1:], len(media)), strict=True):
        known = list(rows)
        seen = [candidate for candidate in look(index) if candidate.mask.any()]
        overlaps = np.zeros((len(known), len(seen)))
        for old, place in np.ndindex(overlaps.shape):
            overlaps[old, place] = mask_overlap(known[old].mask, seen[place].mask)
        pairs = zip(*linear_sum_assignment(-overlaps), strict=True)
        matched = {place: known[old] for old, place in pairs if overlaps[old, place] >= AGAIN}
        visible = [matched.get(place) or _Row(candidate) for place, candidate in enumerate(seen)]
        new = [row for row in visible if row not in known]
        hidden = [row for row in known if row not in visible]
        masks = [*(candidate.mask for candidate in seen), *(row.mask for row in hidden)]
        last = min(end, len(media) - 1)
        forward_tracks = propagated(propagator, media.part(index, last + 1), 0, masks)
        for row, track in zip([*visible, *hidden], forward_tracks, strict=True):
            row.mask = track[last - index]
            if row in visible:
                row.rles |= dict(enumerate(track.rles[: end - index], start=index))
        part = media.part(before + 1, index + 1)
        backward_tracks = propagated(
            propagator, part, index - before - 1, [row.seen.mask for row in new]
        )
        for row, track in zip(new, backward_tracks, strict=True):
            row.rles |= dict(enumerate(track.rles[:-1], start=before + 1))
        rows += new
        before = index
    nothing = Rle.empty(media.size[1], media.size[0])
    tracks = [[row.rles.get(index, nothing) for index in range(len(media))] for row in rows]
    return Instances(
        tuple(
            Instance(Track.from_rles(rles), row.seen.label, row.seen.score)
            for row, rles in zip(rows, tracks, strict=True)
        )
    )


@dataclass(eq=False, slots=True)
class _Row:
    """One object with the masks that are known so far."""

    seen: Seen
    """Its first observation."""
    rles: dict[int, Rle] = field(default_factory=dict)
    """Masks by frame."""
    mask: BoolArray = field(init=False)
    """Its propagated mask in the next described frame."""


def prompted(
    segmenter: Segmenter,
    propagator: Propagator,
    media: Media,
    indices: Sequence[int],
    inputs: Sequence[Output],
) -> Instances:
    """Return the objects in a detector's boxes, each propagated to all frames."""
    boxes = detections_of(inputs)

    def look(index: int) -> list[Seen]:
        frame_boxes = [detection for detection in boxes if detection.frame == index]
        if not frame_boxes:
            return []
        prompts = [ObjectPrompt(box=detection.box) for detection in frame_boxes]
        masks = segmenter.segment(media.frame(index), prompts)
        return [
            Seen(mask.astype(np.bool_), detection.label, detection.score)
            for mask, detection in zip(masks, frame_boxes, strict=True)
        ]

    return carried(look, propagator, media, indices)


def clearest_frame(instance: Instance, indices: Sequence[int]) -> int:
    """Return the described frame with an instance's largest mask, the first at ties."""
    return max(indices, key=lambda index: (instance.track.rle(index).area, -index))


def features_of(
    media: Media,
    indices: Sequence[int],
    inputs: Sequence[Output],
    vector: Callable[[int, BoolArray], Floats],
) -> Features:
    """Return the features of each instance in its clearest frame, and of each described frame.

    `vector` returns the features of a frame's pixels in a mask (height × width, not empty).
    """
    clearest = [(instance, clearest_frame(instance, indices)) for instance in instances_of(inputs)]
    whole = np.ones((media.size[1], media.size[0]), dtype=np.bool_)
    return Features(
        {
            instance.key: vector(index, instance.track[index])
            for instance, index in clearest
            if instance.track.rle(index).area
        },
        {index: vector(index, whole) for index in indices},
    )


def mask_overlap(first: BoolArray, second: BoolArray) -> float:
    """Return the IoU of two masks; 0 if both are empty."""
    union = int((first | second).sum())
    return int((first & second).sum()) / union if union else 0.0


def _covered(mask: BoolArray, known: Sequence[BoolArray]) -> bool:
    size = int(mask.sum())
    return any(
        int((mask & old).sum()) > SAME * size or mask_overlap(mask, old) > SAME for old in known
    )


def propagated(
    propagator: Propagator, media: Media, start: int, masks: Sequence[BoolArray]
) -> list[Track]:
    """Propagate the masks of frame `start` to every frame; return one track per mask.

    Raises:
        ModelError: the propagator returns another number of tracks.
    """
    if not masks or len(media) == 1:
        return [Track.of_one_mask(mask, 1) for mask in masks]
    return [
        track if isinstance(track, Track) else Track.from_rles(rles_of(track))
        for track in tracks_of(propagator, media, start, masks)
    ]


def _from(track: Track, first: int) -> Track:
    """Return the track with empty masks before frame `first`."""
    if first == 0 or len(track) == 1:
        return track
    nothing = Rle.empty(track.height, track.width)
    return Track.from_rles([nothing] * first + list(track.rles[first:]))

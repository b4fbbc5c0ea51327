"""From masks in single frames to instances in every frame."""

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
"""Least IoU of an object's mask with the one that was carried on from where it was seen last."""
SAME = 0.5
"""Share of a mask's pixels, covered by a known object, above which it is not a new object."""


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
    """The objects of the described frames, found anew in each of them and followed in between.

    For propagators that drift. An object is the known one whose mask, carried on from the described
    frame before, overlaps it most; else it is new. One that is not found again has no mask until it
    is.
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
        again = {place: known[old] for old, place in pairs if overlaps[old, place] >= AGAIN}
        shown = [again.get(place) or _Row(candidate) for place, candidate in enumerate(seen)]
        new = [row for row in shown if row not in known]
        hidden = [row for row in known if row not in shown]
        masks = [*(candidate.mask for candidate in seen), *(row.mask for row in hidden)]
        last = min(end, len(media) - 1)
        ahead = propagated(propagator, media.part(index, last + 1), 0, masks)
        for row, track in zip([*shown, *hidden], ahead, strict=True):
            row.mask = track[last - index]
            if row in shown:
                row.rles |= dict(enumerate(track.rles[: end - index], start=index))
        part = media.part(before + 1, index + 1)
        back = propagated(propagator, part, index - before - 1, [row.seen.mask for row in new])
        for row, track in zip(new, back, strict=True):
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
    """One object, so far."""

    seen: Seen
    """First observation of it."""
    rles: dict[int, Rle] = field(default_factory=dict)
    mask: BoolArray = field(init=False)
    """Place in the next described frame."""


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
        here = [detection for detection in boxes if detection.frame == index]
        if not here:
            return []
        prompts = [ObjectPrompt(box=detection.box) for detection in here]
        masks = segmenter.segment(media.frame(index), prompts)
        return [
            Seen(mask.astype(np.bool_), detection.label, detection.score)
            for mask, detection in zip(masks, here, strict=True)
        ]

    return carried(look, propagator, media, indices)


def clearest_frame(instance: Instance, indices: Sequence[int]) -> int:
    """The described frame in which most of an instance is seen, the first of equals."""
    return max(indices, key=lambda index: (instance.track.rle(index).area, -index))


def features_of(
    media: Media,
    indices: Sequence[int],
    inputs: Sequence[Output],
    vector: Callable[[int, BoolArray], Floats],
) -> Features:
    """Features of each instance where it is largest, and of each described frame.

    `vector` describes a mask (height × width, not empty) in a frame.
    """
    places = [(instance, clearest_frame(instance, indices)) for instance in instances_of(inputs)]
    whole = np.ones((media.size[1], media.size[0]), dtype=np.bool_)
    return Features(
        {
            instance.key: vector(index, instance.track[index])
            for instance, index in places
            if instance.track.rle(index).area
        },
        {index: vector(index, whole) for index in indices},
    )


def mask_overlap(first: BoolArray, second: BoolArray) -> float:
    """Intersection over union; 0 where both are empty."""
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
    """Masks of frame `start` in every frame of the medium.

    Raises:
        ModelError: the propagator gives another number of tracks.
    """
    if not masks or len(media) == 1:
        return [Track.of_one_mask(mask, 1) for mask in masks]
    return [
        track if isinstance(track, Track) else Track.from_rles(rles_of(track))
        for track in tracks_of(propagator, media, start, masks)
    ]


def _from(track: Track, first: int) -> Track:
    """The track with empty masks before frame `first`."""
    if first == 0 or len(track) == 1:
        return track
    nothing = Rle.empty(track.height, track.width)
    return Track.from_rles([nothing] * first + list(track.rles[first:]))

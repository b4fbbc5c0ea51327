"""Turn masks of single frames into instances with a mask in every frame of a video.

Nodes that segment call `carried` (each object is segmented once), `renewed` (objects are segmented
in each described frame and matched), or `prompted` (objects in a detector's boxes).
"""

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

MIN_MATCH_IOU = 0.3
"""Smallest IoU of a mask with an earlier object's propagated mask at which they are one object."""
MAX_COVERED_SHARE = 0.5
"""If an earlier object covers a larger share of a mask's pixels, the mask is not a new object."""


class Seen(NamedTuple):
    """The observation of an object in one frame."""

    mask: BoolArray
    """height × width of the medium."""
    label: str = ""
    score: float | None = None


Observe: TypeAlias = Callable[[int], Sequence[Seen]]
"""Function that segments the frame with a number and returns its objects."""


def carried(
    observe: Observe, propagator: Propagator, media: Media, indices: Sequence[int]
) -> Instances:
    """Return the objects of the described frames, each propagated to all frames.

    A mask is a new object unless an earlier object covers more than half of it. A new object has
    empty masks up to the previous described frame, because it was not observed there.
    """
    instances: list[Instance] = []
    before = -1
    for index in indices:
        earlier = [instance.track[index] for instance in instances]
        observed = [seen for seen in observe(index) if seen.mask.any()]
        new = [seen for seen in observed if not _covered(seen.mask, earlier)]
        if new:
            tracks = propagated(propagator, media, index, [seen.mask for seen in new])
            for seen, track in zip(new, tracks, strict=True):
                instances.append(Instance(_from(track, before + 1), seen.label, seen.score))
        before = index
    return Instances(tuple(instances))


def renewed(
    observe: Observe, propagator: Propagator, media: Media, indices: Sequence[int]
) -> Instances:
    """Return the objects of the described frames, detected in each one and propagated in between.

    This suits propagators that drift. Earlier objects are propagated to the next described frame
    and matched with the masks observed there; an unmatched mask is a new object. An unmatched
    earlier object has empty masks until it is matched again.
    """
    from scipy.optimize import linear_sum_assignment  # its import is half of a process's start

    objects: list[_CollectedObject] = []
    before = -1
    for index, end in zip(indices, (*indices[1:], len(media)), strict=True):
        earlier = list(objects)
        observed = [seen for seen in observe(index) if seen.mask.any()]
        # Match the masks observed now with earlier objects, by the largest total overlap.
        overlaps = np.zeros((len(earlier), len(observed)))
        for old, now in np.ndindex(overlaps.shape):
            overlaps[old, now] = mask_overlap(earlier[old].mask, observed[now].mask)
        pairs = zip(*linear_sum_assignment(-overlaps), strict=True)
        matched = {now: earlier[old] for old, now in pairs if overlaps[old, now] >= MIN_MATCH_IOU}
        visible = [matched.get(now) or _CollectedObject(seen) for now, seen in enumerate(observed)]
        new = [object_ for object_ in visible if object_ not in earlier]
        hidden = [object_ for object_ in earlier if object_ not in visible]
        # Propagate forward: visible objects up to the next described frame, where all are matched.
        masks = [*(seen.mask for seen in observed), *(object_.mask for object_ in hidden)]
        last = min(end, len(media) - 1)
        forward_tracks = propagated(propagator, media.part(index, last + 1), 0, masks)
        for object_, track in zip([*visible, *hidden], forward_tracks, strict=True):
            object_.mask = track[last - index]
            if object_ in visible:
                object_.rles |= dict(enumerate(track.rles[: end - index], start=index))
        # Propagate new objects backward, to the frame after the previous described one.
        part = media.part(before + 1, index + 1)
        backward_tracks = propagated(
            propagator, part, index - before - 1, [object_.seen.mask for object_ in new]
        )
        for object_, track in zip(new, backward_tracks, strict=True):
            object_.rles |= dict(enumerate(track.rles[:-1], start=before + 1))
        objects += new
        before = index
    empty = Rle.empty(media.size[1], media.size[0])
    instances = []
    for object_ in objects:
        rles = [object_.rles.get(index, empty) for index in range(len(media))]
        instances.append(Instance(Track.from_rles(rles), object_.seen.label, object_.seen.score))
    return Instances(tuple(instances))


@dataclass(eq=False, slots=True)
class _CollectedObject:
    """One object while its masks are collected."""

    seen: Seen
    """The first observation."""
    rles: dict[int, Rle] = field(default_factory=dict)
    """Masks by frame number."""
    mask: BoolArray = field(init=False)
    """The propagated mask in the next described frame."""


def prompted(
    segmenter: Segmenter,
    propagator: Propagator,
    media: Media,
    indices: Sequence[int],
    inputs: Sequence[Output],
) -> Instances:
    """Return the objects in a detector's boxes, each propagated to all frames."""
    boxes = detections_of(inputs)

    def observe(index: int) -> list[Seen]:
        """Return the objects in the boxes of one frame."""
        frame_boxes = [detection for detection in boxes if detection.frame == index]
        if not frame_boxes:
            return []
        prompts = [ObjectPrompt(box=detection.box) for detection in frame_boxes]
        masks = segmenter.segment(media.frame(index), prompts)
        return [
            Seen(mask.astype(np.bool_), detection.label, detection.score)
            for mask, detection in zip(masks, frame_boxes, strict=True)
        ]

    return carried(observe, propagator, media, indices)


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
    full_frame = np.ones((media.size[1], media.size[0]), dtype=np.bool_)
    return Features(
        {
            instance.key: vector(index, instance.track[index])
            for instance, index in clearest
            if instance.track.rle(index).area
        },
        {index: vector(index, full_frame) for index in indices},
    )


def mask_overlap(first: BoolArray, second: BoolArray) -> float:
    """Return the IoU of two masks; 0 if both are empty."""
    union = int((first | second).sum())
    return int((first & second).sum()) / union if union else 0.0


def _covered(mask: BoolArray, earlier: Sequence[BoolArray]) -> bool:
    """Return True if one of the earlier masks covers more than `MAX_COVERED_SHARE` of a mask."""
    size = int(mask.sum())
    return any(
        int((mask & old).sum()) > MAX_COVERED_SHARE * size
        or mask_overlap(mask, old) > MAX_COVERED_SHARE
        for old in earlier
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
    empty = Rle.empty(track.height, track.width)
    return Track.from_rles([empty] * first + list(track.rles[first:]))

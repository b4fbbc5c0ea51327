"""Make the joint mask of objects in every frame from their boxes, points or phrases in one frame.

`PromptedReader` calls `joint_masks` with the objects of a response: a segmenter makes their masks
in the key frame, a propagator carries them through the video. Models that read or interpolate
boxes of several frames use the box arithmetic at the end.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from harness.errors import ModelError
from harness.masks import BoolArray, Track
from harness.media import Media
from harness.models.grammar import Item
from harness.segmentation import ObjectPrompt, Propagator, Segmenter
from harness.types import Box

Time = TypeVar("Time", int, float)
BLANK = np.zeros(1, np.uint8)
"""The pixel that is repeated as the image of a segmenter that reads no pixels."""
NESTING_FIX = "A list of masks an object, one a frame, each of (height, width)."


def joint_masks(
    segmenter: Segmenter,
    propagator: Propagator,
    media: Media,
    start: int,
    items: Sequence[Item],
    *,
    phrase: str = "",
) -> Callable[[], Sequence[BoolArray]]:
    """Segment the objects in one frame now; return a function that gives their union in all frames.

    The function propagates each object from frame `start` forward and backward, and returns one
    mask (height × width) for each frame. It holds one mask for each object, and run-lengths of the
    other frames if the propagator returns a `Track` for each object.

    Args:
        segmenter: Makes the masks in frame `start`.
        propagator: Carries them to the other frames.
        media: An image or a video.
        start: Number of the frame that the objects are in.
        items: The objects, in pixels of that frame.
        phrase: Words for every item without a phrase; without items, a prompt by itself.

    Raises:
        ModelError: the segmenter or the propagator returns a wrong number of masks, or masks of
            another size.
    """
    shape = (media.size[1], media.size[0])
    prompts = prompts_of(items, phrase)
    if not prompts:
        return lambda: Track(len(media), *shape)
    image = media.frame(start) if segmenter.reads_pixels else np.broadcast_to(BLANK, (*shape, 3))
    masks = segmenter.segment(image, prompts)
    _check_masks(f"segmenter {segmenter.name}", masks, len(prompts), shape)
    return lambda: carried_masks(propagator, media, start, masks)


def carried_masks(
    propagator: Propagator, media: Media, start: int, masks: Sequence[BoolArray]
) -> Sequence[BoolArray]:
    """Return the union in every frame of objects whose masks in frame `start` are given.

    Raises:
        ModelError: the propagator returns a wrong number of masks, or masks of another size.
    """
    if not masks:
        return Track(len(media), media.size[1], media.size[0])
    if len(media) == 1:
        return [np.logical_or.reduce(masks)]
    tracks = tracks_of(propagator, media, start, masks)
    return joint_track(f"propagator {propagator.name}", tracks, media)


def tracks_of(
    propagator: Propagator, media: Media, start: int, masks: Sequence[BoolArray]
) -> Sequence[Sequence[BoolArray]]:
    """Return a propagator's track of each mask: one mask for each frame.

    Raises:
        ModelError: the number of tracks differs from that of the masks.
    """
    tracks = propagator.propagate(media, start, masks)
    if len(tracks) != len(masks):
        what, n_tracks = f"propagator {propagator.name}", str(len(tracks))
        raise ModelError(what, expected=f"{len(masks)} tracks", found=n_tracks)
    return tracks


def joint_track(what: str, tracks: Sequence[Sequence[BoolArray]], media: Media) -> Track:
    """Return the union of objects in every frame of a medium.

    Args:
        what: The part that made the tracks, for errors.
        tracks: One for each object: a mask (height × width of `media`) for each frame.
        media: An image or a video.

    Raises:
        ModelError: the number of masks of a track, or the size of a mask, differs from the media's.
    """
    shape = (media.size[1], media.size[0])
    for track in tracks:
        _check_masks(what, track, len(media), shape)
    encoded = [track for track in tracks if isinstance(track, Track)]
    if encoded and len(encoded) == len(tracks):
        return encoded[0].union(*encoded[1:])  # run-lengths, without decoding
    joint = Track(len(media), *shape)
    for frame, masks in enumerate(zip(*tracks, strict=True)):
        joint[frame] = np.logical_or.reduce(masks)
    return joint


def prompts_of(items: Sequence[Item], phrase: str = "") -> list[ObjectPrompt]:
    """Return one segmenter prompt for each item; without items, one for the phrase, if any.

    An item without a phrase gets `phrase`.
    """
    if not items:
        return [ObjectPrompt(phrase=phrase)] if phrase else []
    return [
        ObjectPrompt(
            box=item.box,
            positive=tuple(point for point in (item.point, item.second) if point is not None),
            negative=() if item.negative is None else (item.negative,),
            phrase=item.phrase or phrase,
        )
        for item in items
    ]


def extent(mask: BoolArray) -> Box | None:
    """Return the box around a mask in pixels (right and bottom exclusive); None if it is empty."""
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    if columns.size == 0:
        return None
    return Box(float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))


def box_overlap(first: Box, second: Box) -> float:
    """Return the intersection over union of two boxes; 0 if their union is empty or not finite."""
    width = min(first.right, second.right) - max(first.left, second.left)
    height = min(first.bottom, second.bottom) - max(first.top, second.top)
    shared = max(width, 0.0) * max(height, 0.0)
    areas = ((box.right - box.left) * (box.bottom - box.top) for box in (first, second))
    union = sum(areas) - shared
    return shared / union if union > 0 and math.isfinite(union) else 0.0


def around(boxes: Sequence[Box]) -> Box | None:
    """Return the smallest box around all boxes; None if there are none."""
    if not boxes:
        return None
    left, top, right, bottom = zip(*boxes, strict=True)
    return Box(min(left), min(top), max(right), max(bottom))


def box_at(boxes_by_time: Mapping[Time, Box], time: Time) -> Box:
    """Return the box at a time, linearly interpolated between the known boxes around it.

    Before the first and after the last known time, the box there is returned.
    """
    before = max((moment for moment in boxes_by_time if moment <= time), default=min(boxes_by_time))
    after = min((moment for moment in boxes_by_time if moment >= time), default=max(boxes_by_time))
    share = 0.0 if after == before else (time - before) / (after - before)
    edge_pairs = zip(boxes_by_time[before], boxes_by_time[after], strict=True)
    return Box(*(start + (end - start) * share for start, end in edge_pairs))


def nearest_index(times: Sequence[float], time: float) -> int:
    """Return the index of the time (ascending) that is nearest; of two equally near, the earlier.

    >>> nearest_index([0.0, 0.5, 1.0], 0.75), nearest_index([0.0, 0.5, 1.0], 9)
    (1, 2)
    """
    after = bisect_left(times, time)
    if after == 0 or after == len(times):
        return min(after, len(times) - 1)
    return after if times[after] - time < time - times[after - 1] else after - 1


def _check_masks(
    what: str, masks: Sequence[BoolArray], n_masks: int, shape: tuple[int, int]
) -> None:
    """Raise ModelError unless there are `n_masks` masks of `shape` (height, width)."""
    shapes = (
        [(masks.height, masks.width)]
        if isinstance(masks, Track)
        else [mask.shape for mask in masks]
    )
    wrong_shapes = [size for size in shapes if size != shape]
    if len(masks) != n_masks or wrong_shapes:
        raise ModelError(
            what,
            expected=f"{n_masks} masks of {shape[0]} × {shape[1]} pixels",
            found=f"{len(masks)} of them" + (f", one of {wrong_shapes[0]}" if wrong_shapes else ""),
            fix=NESTING_FIX if wrong_shapes and len(wrong_shapes[0]) < len(shape) else "",
        )

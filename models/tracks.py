"""From objects in one frame to their joint mask in every frame."""

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
NESTED = "A list of masks an object, one a frame, each of (height, width)."


def joint_masks(
    segmenter: Segmenter,
    propagator: Propagator,
    media: Media,
    start: int,
    items: Sequence[Item],
    *,
    phrase: str = "",
) -> Callable[[], Sequence[BoolArray]]:
    """One mask (height × width) a frame, the union of all objects, in two steps.

    `items` are in pixels of frame `start`, which is segmented as it was decoded, at once. What is
    returned carries the objects to the other frames one by one, forward and backward, when it is
    called. A `phrase` goes with every item that has none of its own; without items it is a prompt
    by itself. Memory: a mask of each object in one frame, and run-lengths of the others, where the
    propagator gives a `Track` an object.

    Raises:
        ModelError: the segmenter or the propagator gives another number of masks, or of pixels.
    """
    shape = (media.size[1], media.size[0])
    prompts = prompts_of(items, phrase)
    if not prompts:
        return lambda: Track(len(media), *shape)
    image = media.frame(start) if segmenter.reads_pixels else np.broadcast_to(BLANK, (*shape, 3))
    masks = segmenter.segment(image, prompts)
    _check(f"segmenter {segmenter.name}", masks, len(prompts), shape)
    return lambda: carried_masks(propagator, media, start, masks)


def carried_masks(
    propagator: Propagator, media: Media, start: int, masks: Sequence[BoolArray]
) -> Sequence[BoolArray]:
    """Return the joint mask in every frame of objects whose masks in frame `start` are given.

    Raises:
        ModelError: the propagator gives another number of masks, or of pixels.
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
    """Return what a propagator makes of masks.

    Raises:
        ModelError: it gives another number of tracks.
    """
    tracks = propagator.propagate(media, start, masks)
    if len(tracks) != len(masks):
        who, count = f"propagator {propagator.name}", str(len(tracks))
        raise ModelError(who, expected=f"{len(masks)} tracks", found=count)
    return tracks


def joint_track(who: str, tracks: Sequence[Sequence[BoolArray]], media: Media) -> Track:
    """The union of objects in every frame of a medium.

    Args:
        who: The part that made the tracks, for errors.
        tracks: One an object, in it a mask (height × width of `media`) a frame.
        media: An image or a video.

    Raises:
        ModelError: a track has another number of masks, or a mask other pixels.
    """
    shape = (media.size[1], media.size[0])
    for track in tracks:
        _check(who, track, len(media), shape)
    known = [track for track in tracks if isinstance(track, Track)]
    if known and len(known) == len(tracks):
        return known[0].union(*known[1:])
    joint = Track(len(media), *shape)
    for index, frame in enumerate(zip(*tracks, strict=True)):
        joint[index] = np.logical_or.reduce(frame)
    return joint


def prompts_of(items: Sequence[Item], phrase: str = "") -> list[ObjectPrompt]:
    """One prompt an object, with its own phrase or the given one; that alone if there is none."""
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
    """The box around a mask (right and bottom exclusive), or None if it is empty."""
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    if columns.size == 0:
        return None
    return Box(float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))


def box_overlap(first: Box, second: Box) -> float:
    """Intersection over union of two boxes; 0 where it is NaN or infinite."""
    across = min(first.right, second.right) - max(first.left, second.left)
    down = min(first.bottom, second.bottom) - max(first.top, second.top)
    shared = max(across, 0.0) * max(down, 0.0)
    areas = ((box.right - box.left) * (box.bottom - box.top) for box in (first, second))
    union = sum(areas) - shared
    return shared / union if union > 0 and math.isfinite(union) else 0.0


def around(boxes: Sequence[Box]) -> Box | None:
    """Return the box around boxes; None of none."""
    if not boxes:
        return None
    left, top, right, bottom = zip(*boxes, strict=True)
    return Box(min(left), min(top), max(right), max(bottom))


def box_at(known: Mapping[Time, Box], time: Time) -> Box:
    """Return the box at a time: between two that are known it moves in a straight line."""
    before = max((moment for moment in known if moment <= time), default=min(known))
    after = min((moment for moment in known if moment >= time), default=max(known))
    share = 0.0 if after == before else (time - before) / (after - before)
    pairs = zip(known[before], known[after], strict=True)
    return Box(*(start + (end - start) * share for start, end in pairs))


def nearest_place(times: Sequence[float], time: float) -> int:
    """Return the place of the nearest of ascending times, the earlier of two.

    >>> nearest_place([0.0, 0.5, 1.0], 0.75), nearest_place([0.0, 0.5, 1.0], 9)
    (1, 2)
    """
    after = bisect_left(times, time)
    if after == 0 or after == len(times):
        return min(after, len(times) - 1)
    return after if times[after] - time < time - times[after - 1] else after - 1


def _check(who: str, masks: Sequence[BoolArray], count: int, shape: tuple[int, int]) -> None:
    shapes = (
        [(masks.height, masks.width)]
        if isinstance(masks, Track)
        else [mask.shape for mask in masks]
    )
    wrong = [size for size in shapes if size != shape]
    if len(masks) != count or wrong:
        raise ModelError(
            who,
            expected=f"{count} masks of {shape[0]} × {shape[1]} pixels",
            found=f"{len(masks)} of them" + (f", one of {wrong[0]}" if wrong else ""),
            fix=NESTED if wrong and len(wrong[0]) < len(shape) else "",
        )

"""From objects in one frame to their joint mask in every frame."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.errors import ModelError
from harness.masks import BoolArray
from harness.media import Media
from harness.model import ObjectPrompt, Propagator, Segmenter
from harness.models.grammar import Item
from harness.types import Box


def joint_masks(
    segmenter: Segmenter,
    propagator: Propagator,
    media: Media,
    start: int,
    items: Sequence[Item],
    *,
    phrase: str = "",
) -> Callable[[], list[BoolArray]]:
    """One mask (height × width) a frame, the union of all objects, in two steps.

    `items` are in pixels of frame `start`, which is segmented as it was decoded, at once. What is
    returned carries the objects to the other frames one by one, forward and backward, when it is
    called. A `phrase` goes with the prompt of each; without items it is a prompt by itself.

    Raises:
        ModelError: the segmenter or the propagator gives another number of masks, or of pixels.
    """
    shape = (media.size[1], media.size[0])
    prompts = prompts_of(items, phrase)
    if not prompts:
        return lambda: [np.zeros(shape, dtype=np.bool_)] * len(media)
    masks = segmenter.segment(media.frame(start), prompts)
    _check(f"segmenter {segmenter.name}", masks, len(prompts), shape)
    if len(media) == 1:
        return lambda: [np.logical_or.reduce(masks)]
    return lambda: _carried(propagator, media, start, masks)


def _carried(
    propagator: Propagator, media: Media, start: int, masks: Sequence[BoolArray]
) -> list[BoolArray]:
    tracks = propagator.propagate(media, start, masks)
    if len(tracks) != len(masks):
        raise ModelError(
            f"propagator {propagator.name}",
            expected=f"{len(masks)} tracks",
            found=str(len(tracks)),
        )
    for track in tracks:
        _check(f"propagator {propagator.name}", track, len(media), masks[0].shape)
    return [np.logical_or.reduce(frame) for frame in zip(*tracks, strict=True)]


def prompts_of(items: Sequence[Item], phrase: str = "") -> list[ObjectPrompt]:
    """One prompt an object, each with the phrase; the phrase alone if there are no objects."""
    if not items:
        return [ObjectPrompt(phrase=phrase)] if phrase else []
    return [
        ObjectPrompt(
            box=item.box,
            positive=tuple(point for point in (item.point, item.second) if point is not None),
            negative=() if item.negative is None else (item.negative,),
            phrase=phrase,
        )
        for item in items
    ]


def extent(mask: BoolArray) -> Box | None:
    """The box around a mask (right and bottom exclusive), or None if it is empty."""
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    if columns.size == 0:
        return None
    return Box(float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))


def _check(who: str, masks: Sequence[BoolArray], count: int, shape: tuple[int, int]) -> None:
    wrong = [mask.shape for mask in masks if mask.shape != shape]
    if len(masks) != count or wrong:
        raise ModelError(
            who,
            expected=f"{count} masks of {shape[0]} × {shape[1]} pixels",
            found=f"{len(masks)} of them" + (f", one of {wrong[0]}" if wrong else ""),
        )

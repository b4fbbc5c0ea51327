"""From objects in one frame to their joint mask in every frame."""

from collections.abc import Sequence

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
) -> list[BoolArray]:
    """One mask (height × width) a frame: the union of all objects.

    `items` are in pixels of frame `start`, which is segmented as it was decoded. The objects are
    carried to the other frames one by one, forward and backward.

    Raises:
        ModelError: the segmenter or the propagator gives another number of masks, or of pixels.
    """
    shape = (media.size[1], media.size[0])
    if not items:
        return [np.zeros(shape, dtype=np.bool_)] * len(media)
    prompts = [
        ObjectPrompt(box=item.box, positive=() if item.point is None else (item.point,))
        for item in items
    ]
    masks = segmenter.segment(media.frame(start), prompts)
    _check(f"segmenter {segmenter.name}", masks, len(items), shape)
    if len(media) == 1:
        return [np.logical_or.reduce(masks)]
    tracks = propagator.propagate(media, start, masks)
    if len(tracks) != len(items):
        raise ModelError(
            f"propagator {propagator.name}",
            expected=f"{len(items)} tracks",
            found=str(len(tracks)),
        )
    for track in tracks:
        _check(f"propagator {propagator.name}", track, len(media), shape)
    return [np.logical_or.reduce(frame) for frame in zip(*tracks, strict=True)]


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

"""Propagators that follow masks from frame to frame, forward and backward from a start."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from harness.errors import ModelError
from harness.masks import BoolArray, Track
from harness.media import Media
from harness.segmentation import Propagator


class Walker(Propagator):
    """Walks through the frames of a video, once in each direction.

    Each direction is a walk of its own, without memory of the other, so that a video played
    backwards gives the same tracks. The masks of the start frame come back as they were given.
    """

    def propagate(self, video: Media, start: int, masks: Sequence[BoolArray]) -> list[Track]:
        """Propagate each mask of frame `start` to every frame of `video`.

        Raises:
            ModelError: a mask has not the video's size, `start` is not a frame of it, or a network
                or process fails.
            OutOfMemory: a device is full.
        """
        check_masks(video, start, masks)
        given = [mask.astype(np.bool_, copy=False) for mask in masks]
        tracks = [Track(len(video), *mask.shape) for mask in given]
        for track, mask in zip(tracks, given, strict=True):
            track[start] = mask
        for group in self._groups(given):
            together = [given[place] for place in group]
            for order in (range(start, len(video)), range(start, -1, -1)):
                if len(order) > 1:
                    for frame, frame_masks in self._walk(video, order, together):
                        for place, mask in zip(group, frame_masks, strict=True):
                            tracks[place][frame] = mask
        return tracks

    def _groups(self, masks: Sequence[BoolArray]) -> list[list[int]]:
        """Return the places of the masks that are followed, by the walks that follow them."""
        followed = [place for place, mask in enumerate(masks) if mask.any()]
        return [followed] if followed else []

    @abstractmethod
    def _walk(
        self, video: Media, order: range, masks: Sequence[BoolArray]
    ) -> Iterator[tuple[int, Iterable[BoolArray]]]:
        """Yield each frame after the first of `order`, whose masks are given, with its masks.

        They are read before the next frame is asked for, so that one need be held at a time.
        """


def check_masks(video: Media, start: int, masks: Sequence[BoolArray]) -> None:
    """Raise ModelError unless `start` is a frame of `video` and every mask has its size."""
    if not 0 <= start < len(video):
        raise ModelError(
            f"start frame {start}", expected=f"0 to {len(video) - 1}", found="no frame of the video"
        )
    shape = (video.size[1], video.size[0])
    for mask in masks:
        if mask.shape != shape:
            raise ModelError(
                "mask to propagate",
                expected=f"height × width {shape[0]} × {shape[1]}",
                found=f"shape {mask.shape}",
            )

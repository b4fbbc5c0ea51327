"""`Walker`, the base class of propagators that go through a video forward and backward.

`propagate` checks the masks and collects the tracks; a subclass yields the masks of each frame in
one direction (`_walk`).
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from harness.errors import ModelError
from harness.masks import BoolArray, Track
from harness.media import Media
from harness.segmentation import Propagator


class Walker(Propagator):
    """Propagates masks by one walk through the frames in each direction.

    The two walks share no memory, so that a video played backwards gives the same tracks. The
    masks of the start frame are returned unchanged.
    """

    def propagate(self, video: Media, start: int, masks: Sequence[BoolArray]) -> list[Track]:
        """Propagate each mask of frame `start` to every frame of `video`.

        Raises:
            ModelError: a mask does not have the video's size, `start` is not a frame of it, or a
                network or process fails.
            OutOfMemory: a device is full.
        """
        check_masks(video, start, masks)
        start_masks = [mask.astype(np.bool_, copy=False) for mask in masks]
        tracks = [Track(len(video), *mask.shape) for mask in start_masks]
        for track, mask in zip(tracks, start_masks, strict=True):
            track[start] = mask
        for group in self._groups(start_masks):
            group_masks = [start_masks[index] for index in group]
            for order in (range(start, len(video)), range(start, -1, -1)):
                if len(order) > 1:
                    for frame, frame_masks in self._walk(video, order, group_masks):
                        for index, mask in zip(group, frame_masks, strict=True):
                            tracks[index][frame] = mask
        return tracks

    def _groups(self, masks: Sequence[BoolArray]) -> list[list[int]]:
        """Return groups of indices of masks; each group is propagated in one walk.

        Masks in no group are empty and stay empty.
        """
        indices = [index for index, mask in enumerate(masks) if mask.any()]
        return [indices] if indices else []

    @abstractmethod
    def _walk(
        self, video: Media, order: range, masks: Sequence[BoolArray]
    ) -> Iterator[tuple[int, Iterable[BoolArray]]]:
        """Yield the index and the masks of each frame of `order` after the first.

        The caller reads the masks of a frame before it requests the next frame.

        Args:
            video: The video.
            order: Indices of the frames, in the direction of the walk.
            masks: The masks of the first frame of `order`.
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

"""The propagator `still`: the same mask in every frame; a baseline for propagators."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.masks import BoolArray, Track
from harness.media import Media
from harness.models.propagators.walks import check_masks
from harness.segmentation import Propagator


@dataclass(frozen=True, slots=True)
class Still(Propagator):
    """Repeats each mask without decoding frames. Memory: the run-lengths of one mask per object."""

    name = "still"
    reads_pixels = False

    def propagate(self, video: Media, start: int, masks: Sequence[BoolArray]) -> list[Track]:
        """Repeat each mask of frame `start` in every frame of `video`.

        Raises:
            ModelError: a mask does not have the video's size, or `start` is not a frame of it.
        """
        check_masks(video, start, masks)
        return [Track.of_one_mask(mask.astype(np.bool_), len(video)) for mask in masks]


def still() -> Still:
    """The same mask in every frame."""
    return Still()

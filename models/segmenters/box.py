"""The segmenter `box`: the prompt's rectangle is the mask; a baseline for segmenters."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.masks import BoolArray
from harness.media import Frame
from harness.models.segmenters.places import box_around_points, rectangle
from harness.segmentation import ObjectPrompt, Segmenter


@dataclass(frozen=True, slots=True)
class BoxSegmenter(Segmenter):
    """Fills the prompt's box or, if it has none, the rectangle around its positive points.

    The mask is empty if the prompt has neither box nor positive point, or if its box lies outside
    the image. Negative points are not used.
    """

    name = "box"
    reads_pixels = False

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """Return one boolean mask (height × width of `image`) per prompt."""
        return [self._fill(image, prompt) for prompt in prompts]

    def _fill(self, image: Frame, prompt: ObjectPrompt) -> BoolArray:
        """Return the mask of one prompt."""
        height, width = image.shape[:2]
        mask = np.zeros((height, width), dtype=np.bool_)
        box = prompt.box if prompt.box is not None else box_around_points(prompt.positive)
        region = None if box is None else rectangle(box, (width, height))
        if region is not None:
            mask[region.slices] = True
        return mask


def box() -> BoxSegmenter:
    """The rectangle of the box."""
    return BoxSegmenter()

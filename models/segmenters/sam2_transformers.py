"""SAM 2 on boxes and points, through transformers.

The method is SAM 2 (Ravi et al.: "SAM 2: Segment Anything in Images and Videos", 2024). Prompts are
given as VisionReasoner's evaluation gives them to SAM2ImagePredictor: box and points in one
prompt, three masks, of which the one with the highest expected IoU is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from harness.masks import BoolArray
from harness.media import Frame
from harness.models.backends import sam2 as checkpoints
from harness.models.backends.checkpoint_part import CheckpointPart
from harness.models.backends.loading import memory
from harness.models.segmenters.last_view import LastView
from harness.models.segmenters.places import clip_box, points_inside
from harness.segmentation import ObjectPrompt, Segmenter
from harness.types import Box, Point

if TYPE_CHECKING:
    from torch import Tensor

INSIDE, BESIDE = 1, 0  # the labels of points


class LocatedPrompt(NamedTuple):
    """A prompt that names a place in the image, and which prompt of the call it is."""

    row: int
    box: Box | None
    positive: tuple[Point, ...]
    negative: tuple[Point, ...]

    @property
    def parts(self) -> tuple[bool, int, int]:
        """Presence of a box, numbers of points. Prompts of equal parts can be decoded together."""
        return self.box is not None, len(self.positive), len(self.negative)


@dataclass(frozen=True, kw_only=True)
class Sam2(CheckpointPart, Segmenter):
    """SAM 2, loaded when first used. It remembers its view of the last image.

    Prompts that have equally many points (and all a box, or none) run in one pass of the mask
    decoder; others would have to be padded, which changes what SAM 2 says.

    Boxes are clipped to the image, swapped edges put in order, and points outside it left out.
    A prompt that names no place in the image gets an empty mask: nothing, a phrase alone,
    negative points alone, a box that lies outside.
    """

    family: ClassVar[str] = "Sam2"
    multimask: bool = True
    compiled: bool = False
    name: str = "sam2"
    """Name of the plugin that made it, for records."""

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """One boolean mask (height × width of `image`) a prompt.

        Raises:
            ModelError: the checkpoint cannot be loaded.
            OutOfMemory: the device is full.
        """
        height, width = image.shape[:2]
        masks = [np.zeros((height, width), dtype=np.bool_) for _ in prompts]
        placed = [
            located
            for row, prompt in enumerate(prompts)
            if (located := placed_in((width, height), row, prompt)) is not None
        ]
        if placed:
            with memory():
                view = self._view(image)
                for _, alike in groupby(sorted(placed, key=lambda prompt: prompt.parts), _parts):
                    self._decode(view, list(alike), masks)
        return masks

    def _view(self, image: Frame) -> "list[Tensor]":
        """Return the embeddings of an image; those of the last one are cached."""
        return self._last_view.get(image, self._looked_at)

    def _looked_at(self, image: Frame) -> "list[Tensor]":
        """The embeddings of an image, resized as it was for the checkpoint's training."""
        import torch

        here = checkpoints.trained_here(self.folder)
        preprocess = checkpoints.pixels if here else checkpoints.float_pixels
        pixels = preprocess(self.processor.image_processor, image)
        with torch.inference_mode():
            maps: list[Tensor] = self.network.get_image_embeddings(pixels.to(self.network.device))
            return maps

    @cached_property
    def _last_view(self) -> "LastView[list[Tensor]]":
        return LastView()

    def _decode(
        self, view: "list[Tensor]", prompts: list[LocatedPrompt], masks: list[BoolArray]
    ) -> None:
        """Write the masks of prompts of equal parts."""
        import torch

        shape = masks[0].shape
        network, given = self.network, inputs(prompts)
        encoded = self.processor(original_sizes=[list(shape)], return_tensors="pt", **given)
        named = {name: encoded[name].to(network.device) for name in given}
        with torch.inference_mode():
            output = network(image_embeddings=view, multimask_output=self.multimask, **named)
            best = output.iou_scores[0].float().argmax(dim=-1)
            for place, prompt in enumerate(prompts):
                logits = output.pred_masks[:, place, best[place]][:, None].float()
                (mask,) = self.processor.post_process_masks([logits], [list(shape)])
                masks[prompt.row][:] = mask[0, 0].cpu().numpy()


def placed_in(size: tuple[int, int], row: int, prompt: ObjectPrompt) -> LocatedPrompt | None:
    """Return a prompt clipped to an image of (width, height); None if it lies outside."""
    positive = tuple(points_inside(prompt.positive, size))
    negative = tuple(points_inside(prompt.negative, size))
    box = None if prompt.box is None else clip_box(prompt.box, size)
    if (prompt.box is None and not positive) or (prompt.box is not None and box is None):
        return None
    return LocatedPrompt(row, box, positive, negative)


def inputs(prompts: Sequence[LocatedPrompt]) -> dict[str, object]:
    """Return the inputs of Sam2Processor for prompts of equal parts, in pixels of the image."""
    given: dict[str, object] = {}
    boxed, inside, beside = prompts[0].parts
    if inside + beside:
        points = [
            [[float(x), float(y)] for x, y in prompt.positive + prompt.negative]
            for prompt in prompts
        ]
        given["input_points"] = [points]
        given["input_labels"] = [[[INSIDE] * inside + [BESIDE] * beside] * len(prompts)]
    if boxed:
        given["input_boxes"] = [[list(prompt.box) for prompt in prompts if prompt.box is not None]]
    return given


def _parts(placed: LocatedPrompt) -> tuple[bool, int, int]:
    return placed.parts

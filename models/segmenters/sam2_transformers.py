"""SAM 2 on boxes and points, through transformers: the class behind `sam2` and `pocket_sam`.

The method is SAM 2 (Ravi et al.: "SAM 2: Segment Anything in Images and Videos", 2024). It is
called as VisionReasoner's evaluation calls SAM2ImagePredictor: box and points form one prompt, and
the mask with the highest predicted IoU of three is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter
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

INSIDE, BESIDE = 1, 0  # SAM 2's labels of positive and negative points


class LocatedPrompt(NamedTuple):
    """A prompt whose box and points are clipped to the image."""

    row: int
    """Index of the prompt among those of the call."""
    box: Box | None
    positive: tuple[Point, ...]
    negative: tuple[Point, ...]

    @property
    def parts(self) -> tuple[bool, int, int]:
        """Presence of a box, numbers of positive and negative points.

        Prompts with equal parts can be decoded together.
        """
        return self.box is not None, len(self.positive), len(self.negative)


@dataclass(frozen=True, kw_only=True)
class Sam2(CheckpointPart, Segmenter):
    """SAM 2, loaded at the first use. It caches the embeddings of the last image.

    Prompts with equal numbers of boxes and points share one pass of the mask decoder. Different
    prompts are not batched, because padding changes SAM 2's masks.

    Boxes are clipped to the image and their edges sorted; points outside the image are ignored.
    The mask is empty if the prompt has neither box nor positive point in the image.
    """

    family: ClassVar[str] = "Sam2"
    multimask: bool = True
    compiled: bool = False
    name: str = "sam2"
    """Name of the plugin, for records."""

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """Return one boolean mask (height × width of `image`) per prompt.

        Raises:
            ModelError: the checkpoint cannot be loaded.
            OutOfMemory: the device is full.
        """
        height, width = image.shape[:2]
        masks = [np.zeros((height, width), dtype=np.bool_) for _ in prompts]
        clipped = [placed_in((width, height), row, prompt) for row, prompt in enumerate(prompts)]
        located_prompts = [prompt for prompt in clipped if prompt is not None]
        if located_prompts:
            with memory():
                view = self._view(image)
                located_prompts.sort(key=attrgetter("parts"))
                for _, batch in groupby(located_prompts, attrgetter("parts")):
                    self._decode(view, list(batch), masks)
        return masks

    def _view(self, image: Frame) -> "list[Tensor]":
        """Return the embeddings of an image, from the cache if it is the last image."""
        return self._last_view.get(image, self._encode)

    def _encode(self, image: Frame) -> "list[Tensor]":
        """Compute the embeddings of an image, resized as in the checkpoint's training."""
        import torch

        is_ours = checkpoints.trained_here(self.folder)
        preprocess = checkpoints.pixels if is_ours else checkpoints.float_pixels
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
        """Decode prompts with equal parts, and write their masks into `masks`."""
        import torch

        shape = masks[0].shape
        network, prompt_inputs = self.network, inputs(prompts)
        encoded = self.processor(original_sizes=[list(shape)], return_tensors="pt", **prompt_inputs)
        tensors = {name: encoded[name].to(network.device) for name in prompt_inputs}
        with torch.inference_mode():
            output = network(image_embeddings=view, multimask_output=self.multimask, **tensors)
            best = output.iou_scores[0].float().argmax(dim=-1)
            for index, prompt in enumerate(prompts):
                logits = output.pred_masks[:, index, best[index]][:, None].float()
                (mask,) = self.processor.post_process_masks([logits], [list(shape)])
                masks[prompt.row][:] = mask[0, 0].cpu().numpy()


def placed_in(size: tuple[int, int], row: int, prompt: ObjectPrompt) -> LocatedPrompt | None:
    """Clip a prompt to an image of (width, height); None if its mask is empty (see `Sam2`)."""
    positive = tuple(points_inside(prompt.positive, size))
    negative = tuple(points_inside(prompt.negative, size))
    box = None if prompt.box is None else clip_box(prompt.box, size)
    if (prompt.box is None and not positive) or (prompt.box is not None and box is None):
        return None
    return LocatedPrompt(row, box, positive, negative)


def inputs(prompts: Sequence[LocatedPrompt]) -> dict[str, object]:
    """Return Sam2Processor's inputs for prompts with equal parts, in pixels of the image."""
    prompt_inputs: dict[str, object] = {}
    has_box, positive, negative = prompts[0].parts
    if positive + negative:
        points = [
            [[float(x), float(y)] for x, y in prompt.positive + prompt.negative]
            for prompt in prompts
        ]
        prompt_inputs["input_points"] = [points]
        labels = [INSIDE] * positive + [BESIDE] * negative
        prompt_inputs["input_labels"] = [[labels] * len(prompts)]
    if has_box:
        prompt_inputs["input_boxes"] = [
            [list(prompt.box) for prompt in prompts if prompt.box is not None]
        ]
    return prompt_inputs

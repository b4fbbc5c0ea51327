"""SAM 3 on a box and a phrase, or on a phrase alone, through transformers.

The method is SAM 3 (Carion et al.: "SAM 3: Segment Anything with Concepts", 2025), prompted as
DR2Seg's appendix C.3 does: each box by itself, together with the phrase; where there is no box, the
phrase alone.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from harness.errors import ModelError, UsageError
from harness.masks import BoolArray
from harness.media import Frame
from harness.models.backends import checkpoint as files
from harness.models.backends import sam2 as checkpoints
from harness.models.backends.checkpoint_part import (
    CheckpointFiles,
    CheckpointPart,
    Computing,
    find_checkpoint,
)
from harness.models.backends.loading import memory
from harness.models.segmenters.last_view import LastView
from harness.models.segmenters.places import clip_box
from harness.models.tracks import box_overlap
from harness.options import with_options
from harness.segmentation import Instance, ObjectPrompt, Segmenter
from harness.types import Box

if TYPE_CHECKING:
    from torch import Tensor
    from transformers.utils import ModelOutput

KINDS = ("sam3", "sam3_video")
"""Architectures whose weights hold the detector; the published checkpoint is of the second."""
PUBLISHED = "facebook/sam3"
UNNAMED = "visual"
"""Text for SAM 3 with a box whose object has no name."""
POSITIVE = 1


@dataclass(frozen=True, kw_only=True)
class Sam3(CheckpointPart, Segmenter):
    """SAM 3, loaded when first used. It remembers its view of the last image.

    A phrase alone finds everything that it fits: the answer is the union of all instances whose
    confidence is above `threshold`; with a box, `instances` chooses among them. Every prompt is a
    pass of its own. Boxes are clipped to the image and swapped edges put in order; points are not
    read. A prompt that names nothing gets an empty mask: no box and no phrase, or a box outside.
    """

    family: ClassVar[str] = "Sam3"
    threshold: float = 0.5
    instances: Literal["one", "all"] = "one"

    name = "sam3"

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """One boolean mask (height × width of `image`) a prompt.

        Raises:
            ModelError: the checkpoint cannot be loaded.
            OutOfMemory: the device is full.
        """
        return [self._mask(image, prompt) for prompt in prompts]

    def find_instances(self, image: Frame, phrase: str) -> list[Instance]:
        """Return every instance above the threshold, by falling confidence; none of a blank phrase.

        Raises:
            ModelError: the checkpoint cannot be loaded.
            OutOfMemory: the device is full.
        """
        if not phrase.strip():
            return []
        with memory():
            output = self._run_network(image, phrase.strip(), None)
        masks = output["masks"].cpu().numpy().astype(np.bool_)
        both = zip(masks, output["scores"].float().cpu().tolist(), strict=True)
        instances = [Instance(mask, score) for mask, score in both]
        return sorted(instances, key=lambda instance: -instance.score)

    def _mask(self, image: Frame, prompt: ObjectPrompt) -> BoolArray:
        height, width = image.shape[:2]
        box = None if prompt.box is None else clip_box(prompt.box, (width, height))
        if box is None and (prompt.box is not None or not prompt.phrase.strip()):
            return np.zeros((height, width), dtype=np.bool_)
        with memory():
            output = self._run_network(image, prompt.phrase.strip() or UNNAMED, box)
        masks, boxes = output["masks"].cpu().numpy(), output["boxes"].float().cpu().tolist()
        if not boxes:  # the processor resizes no mask then
            return np.zeros((height, width), dtype=np.bool_)
        if box is not None and self.instances == "one":
            masks = masks[overlapping(box, boxes)][None]
        union: BoolArray = np.any(masks.astype(np.bool_), axis=0)
        return union

    def _run_network(self, image: Frame, phrase: str, box: Box | None) -> Mapping[str, "Tensor"]:
        """Run the network; return scores, boxes and masks (in pixels of the image) of the objects
        found.
        """
        import torch

        network, size = self.network, (image.shape[0], image.shape[1])
        given = {**self._phrase(phrase), **({} if box is None else network_box(box, size))}
        named = {
            name: value.to(network.device, network.dtype if value.is_floating_point() else None)
            for name, value in given.items()
        }
        with torch.inference_mode(), _uncompiled():
            output = network(vision_embeds=self._view(image), **named)
            (result,) = self.processor.post_process_instance_segmentation(
                output, threshold=self.threshold, mask_threshold=0.5, target_sizes=[size]
            )
        output_of: Mapping[str, Tensor] = result
        return output_of

    def _phrase(self, phrase: str) -> dict[str, "Tensor"]:
        """Return the tokens of a phrase, cut to the text encoder's length: the processor would
        fail.
        """
        longest = int(self.network.config.text_config.max_position_embeddings)
        encoded = self.processor.tokenizer(
            phrase, padding="max_length", truncation=True, max_length=longest, return_tensors="pt"
        )
        return {name: encoded[name] for name in ("input_ids", "attention_mask")}

    def _view(self, image: Frame) -> "ModelOutput":
        """Return the features of an image; those of the last one are cached."""
        return self._last_view.get(image, self._looked_at)

    def _looked_at(self, image: Frame) -> "ModelOutput":
        """The features of an image."""
        import torch

        pixels = checkpoints.pixels(self.processor.image_processor, image)
        network = self.network
        with torch.inference_mode():
            return network.get_vision_features(pixels.to(network.device, network.dtype))

    @cached_property
    def _last_view(self) -> "LastView[ModelOutput]":
        return LastView()


@with_options(Computing, without=("compiled",))
def sam3(
    computing: Computing,
    *,
    checkpoint: str = PUBLISHED,
    threshold: float = 0.5,
    instances: Literal["one", "all"] = "one",
) -> Sam3:
    """SAM 3 from a folder or the local cache: a box and a phrase in, or a phrase alone.

    Args:
        checkpoint: A folder, or a name in the Hugging Face cache. Its weights are given out by
            Meta on request: accept the licence on the page of facebook/sam3 and fetch them there.
        threshold: Instances of at most this confidence (0 to 1) are left out.
        instances: What is kept of those that a box finds: the `one` whose box overlaps it most, or
            `all` of them.

    Raises:
        ModelError: the checkpoint is not there, not whole, not safe to load, or not SAM 3.
        UsageError: the threshold is not a confidence.
    """
    if not 0 <= threshold <= 1:
        raise UsageError("sam3(threshold=…)", expected="0 to 1", found=str(threshold))
    return Sam3(
        **find_sam3("segmenter sam3", checkpoint, KINDS),
        dtype=computing.dtype,
        device=computing.device,
        threshold=threshold,
        instances=instances,
    )


def _uncompiled() -> AbstractContextManager[object]:
    """Keep torchvision from compiling its own `roi_align` where it was built without operators.

    It would take a minute and need a compiler, for one box at a time.
    """
    import torch

    if hasattr(torch.ops.torchvision, "roi_align"):
        return nullcontext()
    eager: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return eager


def overlapping(box: Box, boxes: Sequence[Sequence[float]]) -> int:
    """Return the index of the box (left, top, right, bottom) with the highest IoU; the first of
    equals.
    """
    return max(range(len(boxes)), key=lambda place: box_overlap(box, Box(*boxes[place])))


def network_box(box: Box, size: tuple[int, int]) -> dict[str, "Tensor"]:
    """A box as the network takes it: its middle and its extent, over (height, width)."""
    import torch

    height, width = size
    centre = ((box.left + box.right) / 2 / width, (box.top + box.bottom) / 2 / height)
    extent = ((box.right - box.left) / width, (box.bottom - box.top) / height)
    return {
        "input_boxes": torch.tensor([[[*centre, *extent]]], dtype=torch.float32),
        "input_boxes_labels": torch.tensor([[POSITIVE]]),
    }


def find_sam3(part: str, checkpoint: str, kinds: Sequence[str]) -> CheckpointFiles:
    """Find a SAM 3 checkpoint and look at its files.

    Args:
        part: What errors call the caller.
        checkpoint: A folder, or a name in the Hugging Face cache.
        kinds: Architectures that hold what the caller needs.

    Raises:
        ModelError: it is not there, not whole, not safe to load, of another kind, or SAM 3.1.
    """
    if "sam3.1" in checkpoint or any(Path(checkpoint).glob("sam3.1*")):
        # Its configuration calls itself sam3_video, whose tensors have other shapes.
        raise ModelError(
            f"checkpoint {checkpoint}",
            expected=f"SAM 3, such as {PUBLISHED}",
            found=f"SAM 3.1, for which transformers {version('transformers')} has no class (its "
            "Sam31TrackerVideoModel is a pull request, #46128)",
            fix="Run its authors' package with external(…), or use SAM 3.",
        )
    try:
        folder = files.find(checkpoint)
    except ModelError as error:
        if Path(checkpoint).is_absolute():
            raise
        raise ModelError(
            f"{part}: {error}",
            fix="SAM 3's weights are gated: accept the licence at huggingface.co/facebook/sam3, "
            "fetch them with your own token where there is a network, and give their folder.",
        ) from error
    fix = f"Give a SAM 3 checkpoint in transformers' format, such as {PUBLISHED}."
    return find_checkpoint(str(folder), kinds, fix=fix, name=checkpoint)

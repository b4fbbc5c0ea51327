"""The segmenter `sam3`: SAM 3 on a box and a phrase, or on a phrase alone, through transformers.

The method is SAM 3 (Carion et al.: "SAM 3: Segment Anything with Concepts", 2025). It is prompted
as in DR2Seg's appendix C.3: each box separately, together with the phrase; without a box, the
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

MODEL_TYPES = ("sam3", "sam3_video")
"""Architectures whose weights contain the detector; the published checkpoint is a `sam3_video`."""
PUBLISHED = "facebook/sam3"
DEFAULT_PHRASE = "visual"
"""Phrase for a box without a phrase."""
POSITIVE = 1  # the label of a box around the object


@dataclass(frozen=True, kw_only=True)
class Sam3(CheckpointPart, Segmenter):
    """SAM 3, loaded at the first use. It caches the features of the last image.

    The mask of a phrase alone is the union of all instances with a confidence above `threshold`.
    With a box, `instances` chooses among them. Every prompt is a separate pass. Boxes are clipped
    to the image and their edges sorted; points are not used. The mask is empty if the prompt has
    neither box nor phrase, or if its box lies outside the image.
    """

    family: ClassVar[str] = "Sam3"
    threshold: float = 0.5
    instances: Literal["one", "all"] = "one"

    name = "sam3"

    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """Return one boolean mask (height × width of `image`) per prompt.

        Raises:
            ModelError: the checkpoint cannot be loaded.
            OutOfMemory: the device is full.
        """
        return [self._mask(image, prompt) for prompt in prompts]

    def find_instances(self, image: Frame, phrase: str) -> list[Instance]:
        """Return the instances of a phrase above the threshold, the most confident first.

        A blank phrase has no instances.

        Raises:
            ModelError: the checkpoint cannot be loaded.
            OutOfMemory: the device is full.
        """
        if not phrase.strip():
            return []
        with memory():
            output = self._run_network(image, phrase.strip(), None)
        masks = output["masks"].cpu().numpy().astype(np.bool_)
        scores = output["scores"].float().cpu().tolist()
        instances = [Instance(mask, score) for mask, score in zip(masks, scores, strict=True)]
        return sorted(instances, key=lambda instance: -instance.score)

    def _mask(self, image: Frame, prompt: ObjectPrompt) -> BoolArray:
        """Return the mask of one prompt: the union of the instances that it selects."""
        height, width = image.shape[:2]
        box = None if prompt.box is None else clip_box(prompt.box, (width, height))
        if box is None and (prompt.box is not None or not prompt.phrase.strip()):
            return np.zeros((height, width), dtype=np.bool_)
        with memory():
            output = self._run_network(image, prompt.phrase.strip() or DEFAULT_PHRASE, box)
        masks, boxes = output["masks"].cpu().numpy(), output["boxes"].float().cpu().tolist()
        if not boxes:  # without instances, the processor's masks do not have the image's size
            return np.zeros((height, width), dtype=np.bool_)
        if box is not None and self.instances == "one":
            masks = masks[overlapping(box, boxes)][None]
        union: BoolArray = np.any(masks.astype(np.bool_), axis=0)
        return union

    def _run_network(self, image: Frame, phrase: str, box: Box | None) -> Mapping[str, "Tensor"]:
        """Run the network; return the instances' scores, boxes and masks in pixels of the image."""
        import torch

        network, size = self.network, (image.shape[0], image.shape[1])
        prompt_inputs = {**self._phrase(phrase), **({} if box is None else network_box(box, size))}
        tensors = {
            name: value.to(network.device, network.dtype if value.is_floating_point() else None)
            for name, value in prompt_inputs.items()
        }
        with torch.inference_mode(), _uncompiled():
            output = network(vision_embeds=self._view(image), **tensors)
            (result,) = self.processor.post_process_instance_segmentation(
                output, threshold=self.threshold, mask_threshold=0.5, target_sizes=[size]
            )
        outputs: Mapping[str, Tensor] = result
        return outputs

    def _phrase(self, phrase: str) -> dict[str, "Tensor"]:
        """Return the tokens of a phrase, truncated to the length of the text encoder.

        The processor does not truncate, and long phrases would fail.
        """
        longest = int(self.network.config.text_config.max_position_embeddings)
        encoded = self.processor.tokenizer(
            phrase, padding="max_length", truncation=True, max_length=longest, return_tensors="pt"
        )
        return {name: encoded[name] for name in ("input_ids", "attention_mask")}

    def _view(self, image: Frame) -> "ModelOutput":
        """Return the features of an image, from the cache if it is the last image."""
        return self._last_view.get(image, self._encode)

    def _encode(self, image: Frame) -> "ModelOutput":
        """Compute the features of an image."""
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
        threshold: Confidence (0 to 1) that an instance must exceed.
        instances: Instances that are kept if the prompt has a box: the `one` whose own box has
            the highest IoU with it, or `all` of them.

    Raises:
        ModelError: the checkpoint is missing, incomplete, unsafe to load, or not SAM 3.
        UsageError: the threshold is not from 0 to 1.
    """
    if not 0 <= threshold <= 1:
        raise UsageError("sam3(threshold=…)", expected="0 to 1", found=str(threshold))
    return Sam3(
        **find_sam3("segmenter sam3", checkpoint, MODEL_TYPES),
        dtype=computing.dtype,
        device=computing.device,
        threshold=threshold,
        instances=instances,
    )


def _uncompiled() -> AbstractContextManager[object]:
    """Keep torchvision from compiling `roi_align` if it was built without its operators.

    Compiling takes a minute and needs a compiler, and only one box is aligned at a time.
    """
    import torch

    if hasattr(torch.ops.torchvision, "roi_align"):
        return nullcontext()
    eager: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return eager


def overlapping(box: Box, boxes: Sequence[Sequence[float]]) -> int:
    """Return the index of the box (left, top, right, bottom) with the highest IoU."""
    overlaps = [box_overlap(box, Box(*candidate)) for candidate in boxes]
    return overlaps.index(max(overlaps))


def network_box(box: Box, size: tuple[int, int]) -> dict[str, "Tensor"]:
    """Return the network's inputs for a box: its centre and size as shares of (height, width)."""
    import torch

    height, width = size
    centre = ((box.left + box.right) / 2 / width, (box.top + box.bottom) / 2 / height)
    extent = ((box.right - box.left) / width, (box.bottom - box.top) / height)
    return {
        "input_boxes": torch.tensor([[[*centre, *extent]]], dtype=torch.float32),
        "input_boxes_labels": torch.tensor([[POSITIVE]]),
    }


def find_sam3(part: str, checkpoint: str, kinds: Sequence[str]) -> CheckpointFiles:
    """Find a SAM 3 checkpoint and check its files.

    Args:
        part: Name of the caller in errors.
        checkpoint: A folder, or a name in the Hugging Face cache.
        kinds: Architectures that the caller accepts.

    Raises:
        ModelError: the checkpoint is missing, incomplete, unsafe to load, of another architecture,
            or SAM 3.1.
    """
    if "sam3.1" in checkpoint or any(Path(checkpoint).glob("sam3.1*")):
        # SAM 3.1's configuration says sam3_video, but its tensors have other shapes.
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

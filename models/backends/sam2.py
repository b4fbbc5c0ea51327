"""Find SAM 2 checkpoints in transformers' format, and make images into their networks' tensors.

The segmenters and propagators of SAM 2 use it; `sam2_package` does the same for the authors' files.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.errors import UsageError
from harness.media import Frame
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends import checkpoint_part
from harness.models.backends.checkpoint_part import CheckpointFiles

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BaseImageProcessor

PAPER_CHECKPOINT = "facebook/sam2-hiera-large"
"""SAM2-Large, with which the papers of the methods segment."""
VIDEO_MODEL_TYPE = "sam2_video"
"""The architecture with memory. Its weights hold those of `sam2`, the one for still images."""


def find_checkpoint(checkpoint: str, *, memory: bool, name: str | None = None) -> CheckpointFiles:
    """Find a checkpoint of SAM 2 and check its files, as `checkpoint_part.find_checkpoint`.

    `memory`: it must be of the architecture that follows objects through videos.
    """
    return checkpoint_part.find_checkpoint(
        checkpoint,
        (VIDEO_MODEL_TYPE,) if memory else (VIDEO_MODEL_TYPE, "sam2"),
        fix="Give a SAM 2 checkpoint in transformers' format, such as facebook/sam2.1-hiera-large.",
        name=name,
    )


def published_checkpoint(
    plugin: str, checkpoint: str | None, *, memory: bool, toy: str
) -> CheckpointFiles:
    """Find a checkpoint of SAM 2's authors; those that harness trained have a plugin of their own.

    Args:
        plugin: Name of the plugin that asks, for errors.
        checkpoint: The plugin's argument `checkpoint`.
        memory: True if the checkpoint must follow objects through videos.
        toy: Name of the plugin for the small network that ships, for errors.

    Raises:
        UsageError: `checkpoint` is None, or names one that harness trained.
        ModelError: the checkpoint is missing, damaged, not safe to load, or not SAM 2.
    """
    if checkpoint is None:
        raise UsageError(
            plugin,
            expected="checkpoint=, the weights of SAM 2",
            found="none",
            fix=f"For example {plugin}(checkpoint={PAPER_CHECKPOINT}), which the papers of the "
            f"methods here segment with, {plugin}(checkpoint=facebook/sam2.1-hiera-large), or a "
            f"folder. The small network for coloured shapes that ships is {toy}.",
        )
    files = find_checkpoint(checkpoint, memory=memory)
    if trained_here(files["folder"]):
        raise UsageError(
            f"{plugin}(checkpoint={checkpoint})",
            expected="the weights of SAM 2",
            found="a small network that harness trained",
            fix=f"Name it {toy}(checkpoint={checkpoint}).",
        )
    return files


def pixels(processor: "BaseImageProcessor", image: Frame) -> "Tensor":
    """Return an image as a network takes it: 1 × 3 × side × side, normalised.

    The aspect ratio is not kept.

    Args:
        processor: The image processor of a checkpoint; its video processor resizes alike.
        image: Height × width × 3, uint8; it may be a view, or read-only.
    """
    contiguous = np.array(image, order="C")
    options = {"return_tensors": "pt", "input_data_format": "channels_last"}
    tensor: Tensor = processor(contiguous, **options)["pixel_values"]
    return tensor


def float_pixels(processor: "BaseImageProcessor", image: Frame) -> "Tensor":
    """Return the same as `pixels`, resized as SAM 2's authors do it (`SAM2Transforms`).

    They scale bytes to [0, 1] before resizing; `pixels` resizes bytes, which rounds the result.
    Both are bilinear with antialiasing.
    """
    import torch

    contiguous = torch.from_numpy(np.array(image, order="C")).permute(2, 0, 1).contiguous()
    options = {"return_tensors": "pt", "input_data_format": "channels_first", "do_rescale": False}
    tensor: Tensor = processor(contiguous.float().div(255), **options)["pixel_values"]
    return tensor


def trained_here(folder: Path) -> bool:
    """Return True if harness trained a checkpoint; it was then trained on images from `pixels`."""
    return (folder / checkpoints.TRAINING).is_file()

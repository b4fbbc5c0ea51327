"""SAM 2 checkpoints through transformers: found, and images as their networks take them."""

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

PAPERS = "facebook/sam2-hiera-large"
"""SAM2-Large, with which the papers of the methods segment."""
VIDEO = "sam2_video"
"""The architecture with memory. Its weights hold those of `sam2`, the one for still images."""


def find_checkpoint(checkpoint: str, *, memory: bool, name: str | None = None) -> CheckpointFiles:
    """Find a checkpoint of SAM 2 and look at its files, as `checkpoint_part.find_checkpoint`.

    `memory`: it must be able to follow objects through videos.
    """
    return checkpoint_part.find_checkpoint(
        checkpoint,
        (VIDEO,) if memory else (VIDEO, "sam2"),
        fix="Give a SAM 2 checkpoint in transformers' format, such as facebook/sam2.1-hiera-large.",
        name=name,
    )


def published_checkpoint(
    plugin: str, checkpoint: str | None, *, memory: bool, toy: str
) -> CheckpointFiles:
    """The checkpoint that a SPEC names: none that harness trained, which has a name of its own.

    Args:
        plugin: What errors call the caller.
        checkpoint: What the SPEC says.
        memory: Whether it must be able to follow objects through videos.
        toy: The plugin for the small network that ships.

    Raises:
        UsageError: it names none, or one that harness trained.
        ModelError: it is not there, not whole, not safe to load, or not SAM 2.
    """
    if checkpoint is None:
        raise UsageError(
            plugin,
            expected="checkpoint=, the weights of SAM 2",
            found="none",
            fix=f"For example {plugin}(checkpoint={PAPERS}), which the papers of the methods here "
            f"segment with, {plugin}(checkpoint=facebook/sam2.1-hiera-large), or a folder. The "
            f"small network for coloured shapes that ships is {toy}.",
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
    """An image as a network takes it: 1 × 3 × side × side, normalised.

    Args:
        processor: The image processor of a checkpoint; its video processor squashes alike.
        image: Height × width × 3, which may be a view or not be written to.
    """
    own = np.array(image, order="C")
    given = {"return_tensors": "pt", "input_data_format": "channels_last"}
    tensor: Tensor = processor(own, **given)["pixel_values"]
    return tensor


def float_pixels(processor: "BaseImageProcessor", image: Frame) -> "Tensor":
    """The same, resized as SAM 2's authors do it (`SAM2Transforms` of their package).

    They bring bytes to 0 to 1 first and resize these numbers; `pixels` resizes bytes, which rounds
    what it makes. Both are bilinear with antialiasing.
    """
    import torch

    own = torch.from_numpy(np.array(image, order="C")).permute(2, 0, 1).contiguous()
    given = {"return_tensors": "pt", "input_data_format": "channels_first", "do_rescale": False}
    tensor: Tensor = processor(own.float().div(255), **given)["pixel_values"]
    return tensor


def trained_here(folder: Path) -> bool:
    """Return True if harness trained a checkpoint, which has then seen images by `pixels`."""
    return (folder / checkpoints.TRAINING).is_file()

"""The perception node `dinov2`: features of DINOv2 through transformers, averaged over masks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np

from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.models.backends.checkpoint_part import CheckpointPart, Computing
from harness.models.backends.loading import memory
from harness.models.nodes.instances import features_of
from harness.models.nodes.networks import find_weights
from harness.node import Features, Floats, Kind, Node, NodeKind, Output
from harness.options import with_options


@dataclass(frozen=True, kw_only=True)
class DINOv2(CheckpointPart, Node):
    """Gives a unit vector of each described frame, and of each instance where it is largest."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.FEATURES,
        accepts=frozenset({Kind.INSTANCES}),
        summary="visual feature extraction",
    )

    name = "dinov2"
    classes = ("AutoModel", "AutoImageProcessor")

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Features:
        """Average the features of patches over the pixels of each mask."""
        fields = {index: self._patch_features(media.frame(index)) for index in indices}
        return features_of(
            media, indices, inputs, lambda index, mask: _masked_mean(fields[index], mask)
        )

    def _patch_features(self, image: Frame) -> Floats:
        """Return the features of the image's patches (rows × columns × channels)."""
        import torch

        network, processor = self.network, self.processor
        side = network.config.patch_size
        height, width = (max(side, round(edge / side) * side) for edge in _shrunk_size(image))
        inputs = processor(
            images=np.array(image),
            size={"height": height, "width": width},
            do_center_crop=False,
            return_tensors="pt",
        )
        with memory(), torch.inference_mode():
            output = network(inputs["pixel_values"].to(network.device, network.dtype))
        patches = output.last_hidden_state[0, 1:].float().cpu().numpy()
        return np.asarray(patches.reshape(height // side, width // side, -1), dtype=np.float32)


@with_options(Computing, without=("compiled",))
def dinov2(computing: Computing, *, checkpoint: str | None = None) -> DINOv2:
    """DINOv2: vectors of instances and frames.

    Args:
        checkpoint: A folder, or a name such as facebook/dinov2-base. It must be given.
    """
    checkpoint_files = find_weights(
        "dinov2",
        checkpoint,
        model_type="dinov2",
        example="facebook/dinov2-base",
        instead="colour_features",
    )
    return DINOv2(**checkpoint_files, dtype=computing.dtype, device=computing.device)


MAX_SIDE = 518
"""Longest side of the network's input in pixels: the last stage of DINOv2's training used it."""


def _shrunk_size(image: Frame) -> tuple[float, float]:
    """Return the image's (height, width), shrunk to a longest side of at most MAX_SIDE."""
    scale = min(1.0, MAX_SIDE / max(image.shape[:2]))
    return image.shape[0] * scale, image.shape[1] * scale


def _masked_mean(field: Floats, mask: BoolArray) -> Floats:
    """Return the mean of patch features (rows × columns × channels) over a mask, as a unit vector.

    The weight of a patch is the share of its area that the mask (height × width) covers.
    """
    rows, columns = field.shape[:2]
    share = cv2.resize(mask.astype(np.float32), (columns, rows), interpolation=cv2.INTER_AREA)
    if not share.any():  # the mask is too small for the resampling
        share = np.ones_like(share)
    total = np.tensordot(share, field, axes=2)
    return np.asarray(total / max(float(np.linalg.norm(total)), 1e-12), dtype=np.float32)

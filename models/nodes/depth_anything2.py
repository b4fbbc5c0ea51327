"""The perception node `depth_anything2`: Depth Anything V2 through transformers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.media import Frame, Media
from harness.models.backends.checkpoint_part import CheckpointPart, Computing
from harness.models.backends.loading import memory
from harness.models.nodes.networks import find_weights
from harness.node import DepthMaps, Floats, Kind, Node, NodeKind, Output
from harness.options import with_options

RELATIVE = "relative inverse depth, larger is nearer"
METRIC = "metres, larger is farther"


@dataclass(frozen=True, kw_only=True)
class DepthAnything2(CheckpointPart, Node):
    """Estimates the depth of every pixel: relative inverse depth, or metres."""

    kind: ClassVar[NodeKind] = NodeKind(produces=Kind.DEPTH, summary="depth estimation")

    name = "depth_anything2"
    classes = ("AutoModelForDepthEstimation", "AutoImageProcessor")

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> DepthMaps:
        """Estimate the depth of each described frame."""
        metric = getattr(self.network.config, "depth_estimation_type", "relative") == "metric"
        maps = {index: self._depth(media.frame(index)) for index in indices}
        return DepthMaps(maps, METRIC if metric else RELATIVE)

    def _depth(self, image: Frame) -> Floats:
        """Return the depth of each pixel (height × width)."""
        import torch

        network, processor = self.network, self.processor
        inputs = processor(images=np.array(image), return_tensors="pt")
        with memory(), torch.inference_mode():
            output = network(inputs["pixel_values"].to(network.device, network.dtype))
        (result,) = processor.post_process_depth_estimation(output, target_sizes=[image.shape[:2]])
        return np.asarray(result["predicted_depth"].float().cpu().numpy(), dtype=np.float32)


@with_options(Computing, without=("compiled",))
def depth_anything2(computing: Computing, *, checkpoint: str | None = None) -> DepthAnything2:
    """Depth Anything V2, relative or metric as the checkpoint is.

    Args:
        checkpoint: A folder, or a name such as depth-anything/Depth-Anything-V2-Large-hf. It must
            be given.
    """
    checkpoint_files = find_weights(
        "depth_anything2",
        checkpoint,
        model_type="depth_anything",
        example="depth-anything/Depth-Anything-V2-Large-hf",
        instead="occlusion_depth",
    )
    return DepthAnything2(**checkpoint_files, dtype=computing.dtype, device=computing.device)

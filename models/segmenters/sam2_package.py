"""SAM 2 on boxes and points, run by its authors' package `sam2` instead of transformers.

The segmenter `sam2(config=…)` uses it for checkpoints in the authors' format.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from harness.masks import BoolArray
from harness.media import Frame
from harness.models.backends import sam2_package as package
from harness.models.segmenters.sam2_transformers import BESIDE, INSIDE, LocatedPrompt, Sam2

STRIDES = (4, 8, 16)  # pixels per cell of the three feature maps


@dataclass(frozen=True, kw_only=True)
class Sam2Package(Sam2):
    """The segmenter `Sam2` on the package's SAM2ImagePredictor; it decodes prompts one by one."""

    config: str
    """Name of one of the package's configurations."""

    @cached_property
    def network(self) -> Any:
        """The SAM2ImagePredictor."""
        network = package.build_network(
            package.IMAGES, self.folder, config=self.config, device=self.device
        )
        predictor = import_module("sam2.sam2_image_predictor").SAM2ImagePredictor(network)
        # The predictor assumes that every network has an input of 1024 × 1024 pixels.
        predictor._bb_feat_sizes = [(network.image_size // step,) * 2 for step in STRIDES]
        return predictor

    def prepare(self) -> None:
        """Load the network.

        Raises:
            ModelError: the checkpoint cannot be loaded.
        """
        assert self.network is not None, "building it raises otherwise"

    def _encode(self, image: Frame) -> Any:
        """Compute the image's embeddings; return the predictor, which holds them."""
        with package.precision(self.network, self.dtype):
            self.network.set_image(np.array(image, order="C"))
        return self.network

    def _decode(self, view: Any, prompts: list[LocatedPrompt], masks: list[BoolArray]) -> None:
        """Write the mask of each prompt into `masks`; `view` is the predictor."""
        for prompt in prompts:
            points = [*prompt.positive, *prompt.negative]
            labels = [INSIDE] * len(prompt.positive) + [BESIDE] * len(prompt.negative)
            with package.precision(view, self.dtype):
                output, scores, _ = view.predict(
                    point_coords=np.array(points, dtype=np.float32) if points else None,
                    point_labels=np.array(labels, dtype=np.int32) if points else None,
                    box=None if prompt.box is None else np.array(prompt.box, dtype=np.float32),
                    multimask_output=self.multimask,
                )
            masks[prompt.row][:] = output[int(np.argmax(scores))] > 0

"""SAM 2's video model, run by its authors' package `sam2` instead of transformers.

The propagator `sam2_video(config=…)` uses it for checkpoints in the authors' format.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from harness.masks import BoolArray
from harness.media import Media
from harness.models.backends import sam2_package as package
from harness.models.propagators.sam2_transformers import Sam2Video

if TYPE_CHECKING:
    from torch import Tensor

STATE_TABLES = (
    "point_inputs_per_obj",
    "mask_inputs_per_obj",
    "cached_features",
    "constants",
    "output_dict_per_obj",
    "temp_output_dict_per_obj",
    "frames_tracked_per_obj",
)
"""Dictionaries of the predictor's state of a video; all are empty at the start."""
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of red, green and blue, used by the package's reader."""


@dataclass(frozen=True, kw_only=True)
class Sam2VideoPackage(Sam2Video):
    """The propagator `Sam2Video` on the package's SAM2VideoPredictor.

    The package's reader takes only files. So this class builds the predictor's state of a video,
    with frames that are decoded on access and preprocessed as by that reader.
    """

    config: str
    """Name of one of the package's configurations."""

    @cached_property
    def network(self) -> Any:
        """The SAM2VideoPredictor."""
        network = package.build_network(
            package.VIDEOS, self.folder, config=self.config, device=self.device
        )
        # The package's progress bar would be mixed with the one of this program.
        vars(import_module("sam2.sam2_video_predictor"))["tqdm"] = lambda steps, **_: steps
        return network

    def prepare(self) -> None:
        """Load the network.

        Raises:
            ModelError: the checkpoint cannot be loaded.
        """
        assert self.network is not None, "building it raises otherwise"

    def _walk(
        self, video: Media, order: range, masks: Sequence[BoolArray]
    ) -> Iterator[tuple[int, list[BoolArray]]]:
        """Propagate all masks in one pass of the predictor over the frames of `order`."""
        import torch

        start, reverse = order[0], order.step < 0
        network, state = self.network, self._state(video)
        with torch.inference_mode(), package.precision(network, self.dtype):
            for name, mask in enumerate(masks):
                network.add_new_mask(state, start, name, np.ascontiguousarray(mask))
            steps = network.propagate_in_video(state, start_frame_idx=start, reverse=reverse)
            for frame, _, logits in steps:
                self._drop(state, frame)
                if frame != start:
                    yield frame, list((logits[:, 0] > 0).cpu().numpy())

    def _state(self, video: Media) -> dict[str, object]:
        """Return the state of a video without any prompt."""
        device = self.network.device
        return {
            "images": ResizedFrames(video, self.network.image_size),
            "num_frames": len(video),
            "video_height": video.size[1],
            "video_width": video.size[0],
            "device": device,
            "storage_device": device,
            "offload_video_to_cpu": False,
            "offload_state_to_cpu": False,
            "obj_ids": [],
            "obj_id_to_idx": OrderedDict(),
            "obj_idx_to_id": OrderedDict(),
            **{name: {} for name in STATE_TABLES},
        }

    def _drop(self, state: dict[str, Any], frame: int) -> None:
        """Remove the state that no later frame of this propagation can use."""
        reach = max(self.network.num_maskmem, self.network.max_obj_ptrs_in_encoder)
        for outputs in state["output_dict_per_obj"].values():
            tracked = outputs["non_cond_frame_outputs"]
            for old in [index for index in tracked if abs(frame - index) >= reach]:
                del tracked[old]


@dataclass(frozen=True, slots=True)
class ResizedFrames:
    """Frames of a video, preprocessed on access as the package's own reader does it.

    That reader resizes the bytes with Pillow's default filter, which is bicubic
    (`_load_img_as_tensor` in `sam2.utils.misc`). The package's SAM2Transforms, which resizes floats
    with a bilinear filter, is for images only.
    """

    video: Media
    side: int

    def __len__(self) -> int:
        return len(self.video)

    def __getitem__(self, index: int) -> "Tensor":
        """Return a frame as normalised floats (3 × side × side)."""
        import torch

        image = Image.fromarray(self.video.frame(index)).resize((self.side, self.side))
        numbers = torch.from_numpy(np.array(image) / 255.0).permute(2, 0, 1).float()
        mean, deviation = (torch.tensor(channels)[:, None, None] for channels in (MEAN, DEVIATION))
        return (numbers - mean) / deviation

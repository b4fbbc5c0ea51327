"""XMem and Cutie behind one interface: it takes the first frame's masks and returns labels.

Each class holds a loaded network and the official `InferenceCore`, and calls it as the official
evaluation does. Every propagation starts with an empty memory. The first frame comes with the
masks, later frames without. The last frame is not added to the memory. Networks and cores are
arguments, so that only `checkout_child` imports official code.

Frames are height × width × 3, uint8, RGB. Masks are objects × height × width. Labels are height ×
width, uint8: 0 is the background, k the k-th object.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import nn

Labels = NDArray[np.uint8]
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's mean and standard deviation per channel (0 to 1), used to normalise XMem's frames."""
STRIDE = 16  # pixels per side of a cell of the networks' memory
XMEM: Mapping[str, int] = {
    "mem_every": 5,
    "deep_update_every": -1,
    "enable_long_term": True,
    "max_mid_term_frames": 10,
    "min_mid_term_frames": 5,
    "max_long_term_elements": 10_000,
    "num_prototypes": 128,
    "top_k": 30,
}
"""The settings of XMem's official evaluation."""


class Core(Protocol):
    """Propagates masks through the frames of a video; `begin` starts each propagation."""

    def begin(self, masks: NDArray[np.bool_], frames: int) -> None:
        """Start a propagation over `frames` frames; the disjoint `masks` belong to the first."""

    def step(self, frame: NDArray[np.uint8], *, last: bool) -> Labels:
        """Return the labels of the next frame."""


class XMemCore:
    """XMem (Cheng and Schwing: "XMem: Long-Term Video Object Segmentation …", ECCV 2022)."""

    def __init__(
        self,
        network: "nn.Module",
        core: Callable[..., Any],
        *,
        size: int,
        device: str,
        sizes: Mapping[str, int],
    ) -> None:
        self.network, self.core, self.size, self.device = network, core, size, device
        self.sizes = sizes  # channels of the network, which the core reads from its settings

    def begin(self, masks: NDArray[np.bool_], frames: int) -> None:
        """Start a propagation."""
        self.masks: NDArray[np.bool_] | None = masks
        self.walk = self.core(self.network, config={**config_for(frames), **self.sizes})
        self.walk.set_all_labels(list(range(1, len(masks) + 1)))

    def step(self, frame: NDArray[np.uint8], *, last: bool) -> Labels:
        """Return the labels of the next frame; it is resized to a shorter side of `size`."""
        import torch
        from torch.nn.functional import interpolate

        shape = frame.shape[:2]
        small = shrunk_size(shape, self.size)
        with torch.inference_mode():
            image = torch.from_numpy(frame.astype(np.float32) / 255).permute(2, 0, 1)
            mean, deviation = (
                torch.tensor(channels).view(3, 1, 1) for channels in (MEAN, DEVIATION)
            )
            image = ((image - mean) / deviation).to(self.device)[None]
            image = interpolate(image, small, mode="bilinear", align_corners=False)[0]
            masks = labels = None
            if self.masks is not None:
                mask_tensor = torch.from_numpy(self.masks.astype(np.float32)).to(self.device)[None]
                masks = interpolate(mask_tensor, small, mode="nearest")[0]
                labels, self.masks = list(range(1, len(mask_tensor[0]) + 1)), None
            probabilities = self.walk.step(image, masks, labels, end=last)
            probabilities = interpolate(
                probabilities[None].float(), shape, mode="bilinear", align_corners=False
            )
            return np.asarray(probabilities[0].argmax(dim=0).to(torch.uint8).cpu().numpy())


class CutieCore:
    """Cutie (Cheng et al.: "Putting the Object Back into Video Object Segmentation", CVPR 2024)."""

    def __init__(
        self,
        network: "nn.Module",
        core: Callable[..., Any],
        *,
        config: Mapping[str, object],
        device: str,
    ) -> None:
        self.network, self.core, self.config, self.device = network, core, config, device

    def begin(self, masks: NDArray[np.bool_], frames: int) -> None:
        """Start a propagation."""
        numbers = np.arange(1, len(masks) + 1, dtype=np.uint8)[:, None, None]
        self.labels: Labels | None = (masks * numbers).sum(axis=0).astype(np.uint8)
        self.walk = self.core(self.network, cfg=self.config)

    def step(self, frame: NDArray[np.uint8], *, last: bool) -> Labels:
        """Return the labels of the next frame; Cutie shrinks it to its `max_internal_size`."""
        import torch

        with torch.inference_mode():
            image = torch.from_numpy(frame.astype(np.float32) / 255).permute(2, 0, 1)
            image = image.to(self.device)
            if self.labels is None:
                probabilities = self.walk.step(image, end=last)
            else:
                objects = list(range(1, int(self.labels.max()) + 1))
                labels = torch.from_numpy(self.labels).long().to(self.device)
                self.labels = None
                probabilities = self.walk.step(image, labels, objects=objects, end=last)
            labels_tensor = self.walk.output_prob_to_mask(probabilities)
            return np.asarray(labels_tensor.to(torch.uint8).cpu().numpy())


def shrunk_size(shape: tuple[int, ...], size: int) -> tuple[int, int]:
    """Return (height, width) with a shorter side of `size` pixels, the longer side rounded down.

    >>> shrunk_size((480, 854), 240)
    (240, 427)
    """
    minimum = min(shape)
    return int(shape[0] / minimum * size), int(shape[1] / minimum * size)


def config_for(frames: int) -> dict[str, int]:
    """Return XMem's settings for a propagation over `frames` frames.

    As in the official evaluation, the uses of memory are counted only in very long videos.
    """
    turnover = XMEM["max_mid_term_frames"] - XMEM["min_mid_term_frames"]
    elements = frames / turnover * XMEM["num_prototypes"]
    counts_usage = elements >= XMEM["max_long_term_elements"]
    return {**XMEM, "enable_long_term_count_usage": counts_usage}

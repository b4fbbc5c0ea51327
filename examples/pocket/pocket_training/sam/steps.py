"""Losses of one training step: stills with prompts, and clips with the masks of one frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as nnf

from harness.masks import BoolArray
from pocket_training.sam.batches import Clip, PromptedImage
from pocket_training.sam.forward import Decoded, encode_images, predict_masks, track_objects
from pocket_training.sam.losses import mask_losses, reached_ious

if TYPE_CHECKING:
    from transformers import Sam2VideoModel, Sam2VideoProcessor

OTHERS = 0.3
"""Weight of the mean over the three masks beside the best of them. With the best alone, as SAM 2 is
trained, each mask learned some of the objects, and the expected IoU could not tell which."""

PRESENCE = 0.2  # weight of the cross entropy of an object being in view


@dataclass(frozen=True, slots=True)
class Cost:
    """A loss with gradients, and plain numbers for the curve."""

    loss: Tensor
    numbers: Mapping[str, float]


def still_cost(
    network: "Sam2VideoModel",
    processor: "Sam2VideoProcessor",
    prompted: Sequence[PromptedImage],
    *,
    multimask: bool,
    background: float,
) -> Cost:
    """Masks of prompts: three of them each if `multimask`, else the single one."""
    side = network.config.image_size
    seen = encode_images(network, pixels(processor, [one.image for one in prompted]))
    points = torch.from_numpy(np.stack([scale_points(one, side) for one in prompted]))
    labels = torch.from_numpy(np.stack([one.labels for one in prompted]))
    decoded = predict_masks(network, seen, points, labels, multimask=multimask)
    ground_truth = torch.stack([shares(one.masks, side // 2) for one in prompted])
    return _cost(decoded, ground_truth, torch.ones_like(decoded.presence), background)


def clip_cost(
    network: "Sam2VideoModel",
    processor: "Sam2VideoProcessor",
    shown: Sequence[Clip],
    *,
    background: float,
) -> Cost:
    """Return the loss on all frames but the first, whose masks are given.

    All clips are equally long, with equally many objects.
    """
    side, length = network.config.image_size, len(shown[0].frames)
    seen = encode_images(
        network, pixels(processor, [frame for clip in shown for frame in clip.frames])
    )
    objects = shown[0].masks.shape[1]
    first = torch.arange(len(shown)).repeat_interleave(objects) * length
    given = torch.cat([shares(clip.masks[0], side) for clip in shown]) >= 0.5
    output = track_objects(network, seen, given.float(), first + torch.arange(length)[:, None])
    ground_truth = torch.cat([shares(clip.masks[1:], side // 2) for clip in shown], dim=1)
    present = np.concatenate([clip.masks[1:].any(axis=(2, 3)) for clip in shown], axis=1)
    in_view = torch.from_numpy(present.T).float()
    joined = Decoded(
        *(
            torch.cat([getattr(one, name) for one in output], dim=1)
            for name in ("masks", "ious", "tokens", "presence")
        )
    )
    return _cost(joined, ground_truth.transpose(0, 1), in_view[..., None], background)


def pixels(processor: "Sam2VideoProcessor", images: Sequence[NDArray[np.uint8]]) -> Tensor:
    """Images as the network takes them, made as they are when it is used."""
    made: Tensor = processor.image_processor(list(images), return_tensors="pt")["pixel_values"]
    return made


def shares(masks: BoolArray, side: int) -> Tensor:
    """Return the share of each cell of a side × side grid that the masks cover: (…, side, side)."""
    flat = torch.from_numpy(masks.reshape(-1, 1, *masks.shape[-2:])).float()
    small = nnf.interpolate(
        flat, (side, side), mode="bilinear", align_corners=False, antialias=True
    )
    return small.view(*masks.shape[:-2], side, side)


def scale_points(prompted: PromptedImage, side: int) -> NDArray[np.float32]:
    """Points in pixels of the network's image."""
    height, width = prompted.image.shape[:2]
    return prompted.points * np.array([side / width, side / height], dtype=np.float32)


def _cost(decoded: Decoded, ground_truth: Tensor, present: Tensor, background: float) -> Cost:
    """The whole loss of images × objects.

    `ground_truth` is images × objects × h × w, shares of cells; `present` images × objects × 1.
    Masks cost something only where the object is in view.
    """
    grown = nnf.interpolate(decoded.masks.flatten(0, 1), ground_truth.shape[-2:], mode="bilinear")
    logits, whole = (
        grown.view(*decoded.masks.shape[:3], *ground_truth.shape[-2:]),
        ground_truth[:, :, None],
    )
    losses = mask_losses(logits, whole, background=background)
    reached = reached_ious(logits.detach(), whole)
    each = (losses.amin(-1) + OTHERS * losses.mean(-1), (decoded.ious - reached).abs().mean(-1))
    seen = present[..., 0]
    mask, iou = ((part * seen).sum() / seen.sum().clamp(min=1) for part in each)
    presence = nnf.binary_cross_entropy_with_logits(decoded.presence, present)
    taken = reached.gather(-1, decoded.ious.argmax(-1, keepdim=True))[..., 0]
    numbers = {
        "mask": float(mask.detach()),
        "iou_error": float(iou.detach()),
        "presence": float(presence.detach()),
        "reached_iou": float((taken * seen).sum() / seen.sum().clamp(min=1)),
    }
    return Cost(mask + iou + PRESENCE * presence, numbers)

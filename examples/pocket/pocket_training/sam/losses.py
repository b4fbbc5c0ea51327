"""Losses of one training step: stills with prompts, and clips with the masks of one frame."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as nnf

from harness.masks import BoolArray
from pocket_training.sam.batches import Clip, PromptedImage
from pocket_training.sam.forward import Decoded, predict_masks, track_objects

if TYPE_CHECKING:
    from transformers import Sam2VideoModel, Sam2VideoProcessor

OTHERS = 0.3
"""Weight of the mean over the three masks beside the best of them. With the best alone, as SAM 2 is
trained, each mask learned some of the objects, and the expected IoU could not tell which."""

PRESENCE = 0.2  # weight of the cross entropy of an object being in view
STEADY = 64.0  # pixels of the grid that losses are taken on: keeps tiny objects from ruling


def still_loss(
    network: "Sam2VideoModel",
    processor: "Sam2VideoProcessor",
    prompted: Sequence[PromptedImage],
    *,
    multimask: bool,
    background: float,
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of prompts' masks, three each if `multimask`, and its parts for the log."""
    side = network.config.image_size
    seen = network.get_image_features(pixels(processor, [one.image for one in prompted]))
    points = torch.from_numpy(np.stack([one.points for one in prompted])) * side
    labels = torch.from_numpy(np.stack([one.labels for one in prompted]))
    decoded = predict_masks(network, seen, points, labels, multimask=multimask)
    ground_truth = torch.stack([shares(one.masks, side // 2) for one in prompted])
    return _loss(decoded, ground_truth, torch.ones_like(decoded.presence), background)


def clip_loss(
    network: "Sam2VideoModel",
    processor: "Sam2VideoProcessor",
    shown: Sequence[Clip],
    *,
    background: float,
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of all frames but the first, whose masks are given, and its parts.

    All clips are equally long, with equally many objects.
    """
    side = network.config.image_size
    length, objects = shown[0].masks.shape[:2]
    frames = [one for clip in shown for one in clip.frames]
    seen = network.get_image_features(pixels(processor, frames))
    first = torch.arange(len(shown)).repeat_interleave(objects) * length
    given = torch.cat([shares(clip.masks[0], side) for clip in shown]) >= 0.5
    output = track_objects(network, seen, given.float(), first + torch.arange(length)[:, None])
    decoded = Decoded(*(torch.cat(parts, dim=1) for parts in zip(*output, strict=True)))
    ground_truth = torch.cat([shares(clip.masks[1:], side // 2) for clip in shown], dim=1)
    present = np.concatenate([clip.masks[1:].any(axis=(2, 3)) for clip in shown], axis=1)
    in_view = torch.from_numpy(present.T).float()[..., None]
    return _loss(decoded, ground_truth.transpose(0, 1), in_view, background)


def _loss(
    decoded: Decoded, ground_truth: Tensor, present: Tensor, background: float
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of images × objects, and its parts.

    `ground_truth` is images × objects × h × w, shares of cells; `present` images × objects × 1.
    Masks cost something only where the object is in view.
    """
    size = ground_truth.shape[-2:]
    grown = nnf.interpolate(decoded.masks.flatten(0, 1), size, mode="bilinear")
    logits, whole = grown.view(*decoded.masks.shape[:3], *size), ground_truth[:, :, None]
    losses = mask_losses(logits, whole, background=background)
    reached = reached_ious(logits.detach(), whole)
    taken = reached.gather(-1, decoded.ious.argmax(-1, keepdim=True))[..., 0]
    mask, iou, reached_iou = (
        (part * present[..., 0]).sum() / present.sum().clamp(min=1)
        for part in (
            losses.amin(-1) + OTHERS * losses.mean(-1),
            (decoded.ious - reached).abs().mean(-1),
            taken,
        )
    )
    presence = nnf.binary_cross_entropy_with_logits(decoded.presence, present)
    parts = {"mask": mask, "iou_error": iou, "presence": presence, "reached_iou": reached_iou}
    numbers = {name: float(part.detach()) for name, part in parts.items()}
    return mask + iou + PRESENCE * presence, numbers


def mask_losses(logits: Tensor, ground_truth: Tensor, *, background: float = 1.0) -> Tensor:
    """Cross entropy by the object's area, plus dice: (…) of logits (…, h, w).

    Args:
        logits: Of each pixel being in the mask.
        ground_truth: The share of each pixel that the object covers, of a shape that broadcasts.
        background: Weight in the cross entropy of a pixel beside the object, relative to one in it.
            Most pixels are background, and a network that begins with 1 begins with empty masks.
    """
    ground_truth = ground_truth.expand_as(logits)
    crossed = nnf.binary_cross_entropy_with_logits(logits, ground_truth, reduction="none")
    weights = background + (1 - background) * ground_truth
    area, chance = ground_truth.sum((-1, -2)), logits.sigmoid()
    shared = (chance * ground_truth).sum((-1, -2))
    dice = 1 - (2 * shared + 1) / (chance.sum((-1, -2)) + area + 1)
    return (crossed * weights).sum((-1, -2)) / (area + STEADY) + dice


def reached_ious(logits: Tensor, ground_truth: Tensor) -> Tensor:
    """Return the IoU of thresholded masks; 1 where both are empty."""
    predicted, real = logits > 0, ground_truth > 0.5
    union, shared = ((predicted | real).sum((-1, -2)), (predicted & real).sum((-1, -2)))
    return torch.where(union > 0, shared / union.clamp(min=1), 1.0)


def pixels(processor: "Sam2VideoProcessor", images: Sequence[NDArray[np.uint8]]) -> Tensor:
    """Images as the network takes them, made as they are when it is used."""
    made: Tensor = processor.image_processor(list(images), return_tensors="pt")["pixel_values"]
    return made


def shares(masks: BoolArray, side: int) -> Tensor:
    """Return the share of each cell of a side × side grid that the masks cover: (…, side, side)."""
    flat = torch.from_numpy(masks.reshape(-1, 1, *masks.shape[-2:])).float()
    small = nnf.interpolate(flat, (side, side), mode="bilinear", antialias=True)
    return small.view(*masks.shape[:-2], side, side)

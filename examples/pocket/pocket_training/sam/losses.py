"""Losses of a mask, an expected IoU and a presence."""

import torch
from torch import Tensor
from torch.nn import functional as nnf

STEADY = 64.0  # pixels of the grid that losses are taken on: keeps tiny objects from ruling


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
    predicted, real = logits > 0, ground_truth.expand_as(logits) > 0.5
    union = (predicted | real).sum((-1, -2))
    shared = (predicted & real).sum((-1, -2))
    return torch.where(union > 0, shared / union.clamp(min=1), 1.0)

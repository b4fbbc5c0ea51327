"""Compute R_acc, DR2Seg's accuracy reward, under its SAM 3 form of answers (paper, C.3).

It is the IoU of the mask that a response leads to with the true mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import ParseError
from harness.masks import Rle
from harness.models.pipeline import PromptedModel
from harness.trainers.grpo.method import Group, RewardComponents
from harness.types import Sample


@dataclass(frozen=True, slots=True)
class MaskAccuracy:
    """Returns the IoU (0 to 1) of each response's mask with the true mask, over all frames.

    `model` parses and segments the response's boxes, or its description if it has no boxes, as in
    evaluation, but without repairs. An unreadable response earns 0. Equal responses are segmented
    once.
    """

    model: PromptedModel

    def __call__(self, group: Group, responses: Sequence[str]) -> list[RewardComponents]:
        """Return the IoU of each response as its component `accuracy`."""
        overlaps = {
            response: self._overlap(group.sample, response) for response in dict.fromkeys(responses)
        }
        return [{"accuracy": overlaps[response]} for response in responses]

    def _overlap(self, sample: Sample, response: str) -> float:
        answer = self.model.read(sample.query, [response]).answer
        if answer is None or answer.masks is None:
            return 0.0
        return joint_iou(answer.masks, true_masks(sample))


def joint_iou(predicted: Sequence[Rle], true: Sequence[Rle]) -> float:
    """Return the IoU of two masks over all frames together; 1 if both are empty."""
    shared = union = 0
    for predicted_mask, true_mask in zip(predicted, true, strict=True):
        first, second = predicted_mask.to_array(), true_mask.to_array()
        shared += int(np.count_nonzero(first & second))
        union += int(np.count_nonzero(first | second))
    return shared / union if union else 1.0


def true_masks(sample: Sample) -> tuple[Rle, ...]:
    """Return the target's masks, one per frame.

    Raises:
        ParseError: the target has no masks.
    """
    masks = None if sample.target is None else sample.target.answer.masks
    if masks is None:
        raise ParseError(f"sample {sample.id}", expected="a true mask", found="none")
    return masks

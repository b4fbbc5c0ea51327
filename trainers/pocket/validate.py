"""Quick validation: greedy responses to unseen questions, by kind.

The card's numbers do not come from here but from `harness eval`. Here lessons of the validation
split are drawn, answered, and compared with their responses.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from harness.metrics.boxes import box_iou
from harness.models.questions import answer_part
from harness.models.visionreasoner import grammar
from harness.trainers.pocket.batches import Batch, Collator
from harness.trainers.pocket.data_mixture import DrawnScene
from harness.trainers.pocket.forward import patches
from harness.trainers.pocket.reasoning_templates import MEASURED
from harness.trainers.pocket.training_examples import TrainingExample

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

LONGEST = 150  # tokens of a response
CLOSE = 0.1  # a number this near, relatively, is right


def validate(
    network: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    collator: Collator,
    drawn: Sequence[DrawnScene],
    *,
    interval: int = 2,
) -> dict[str, list[float]]:
    """Scores from 0 to 1 of each lesson's response, by the lesson's kind.

    For places: the share of boxes that are right (IoU ≥ 0.5, one to one), by the larger number of
    boxes; for a count, whether it is right; for words, whether the answer is.
    """
    found: dict[str, list[float]] = defaultdict(list)
    alike: dict[int, list[DrawnScene]] = defaultdict(list)
    for one in drawn:
        if one.examples:
            alike[len(one.view.frames)].append(one)
    for several in alike.values():
        responses = iter(_responses(network, tokenizer, collator, several, interval))
        for example in (example for one in several for example in one.examples):
            found[example.kind].append(_correctness(example, next(responses)))
    return found


def summary(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The mean of each kind."""
    return {kind: round(float(np.mean(values)), 4) for kind, values in sorted(found.items())}


def _correctness(example: TrainingExample, response: str) -> float:
    ground_truth = grammar.parse(example.response)
    if ground_truth.error is not None:
        predicted, right = answer_part(response), answer_part(example.response)
        if example.kind in MEASURED and predicted.isdigit():
            return float(abs(int(predicted) - int(right)) <= CLOSE * int(right))
        return float(predicted == right)
    read = grammar.parse(response)
    if example.kind in ("count", "absent"):
        return float(read.error is None and len(read.items) == len(ground_truth.items))
    if read.error is not None or not read.items:
        return 0.0
    ious = box_iou(
        [item.bounds for item in ground_truth.items], [item.bounds for item in read.items]
    )
    return _count_matched(ious) / max(len(ground_truth.items), len(read.items))


def _count_matched(ious: np.ndarray) -> int:
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(ious, maximize=True)
    return int((ious[rows, columns] >= 0.5).sum())


@torch.no_grad()
def _responses(
    network: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    collator: Collator,
    drawn: Sequence[DrawnScene],
    interval: int,
) -> list[str]:
    """Greedy responses through the network's own `generate`, prompts padded on the left."""
    batch = collator.batch(drawn, intervals=[interval] * len(drawn))
    prompts = [_prompt(batch, row) for row in range(len(batch.tokens))]
    length = max(map(len, prompts))
    pad = tokenizer.pad_token_id
    tokens = torch.tensor([[pad] * (length - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in prompts])
    clip = batch.images.shape[1] > 1
    pixels = patches(torch.from_numpy(batch.images))  # images × grids × patches × … × 588
    grid = torch.tensor([[pixels.shape[1], 12, 12]] * len(prompts))
    flat = torch.cat([_both_moments(pixels[owner]) for owner in batch.owner])
    if clip:
        clocks = torch.full((len(prompts),), float(interval))
        seen = {"pixel_values_videos": flat, "video_grid_thw": grid, "second_per_grid_ts": clocks}
    else:
        seen = {"pixel_values": flat, "image_grid_thw": grid}
    token = network.config.video_token_id if clip else network.config.image_token_id
    written = network.generate(
        input_ids=tokens,
        attention_mask=mask,
        mm_token_type_ids=(tokens == token).int() * (2 if clip else 1),
        max_new_tokens=LONGEST,
        do_sample=False,
        **seen,
    )
    return list(tokenizer.batch_decode(written[:, length:], skip_special_tokens=True))


def _prompt(batch: Batch, row: int) -> list[int]:
    """A row's tokens before its response: up to the place that writes the response's first
    token.
    """
    last = int(np.flatnonzero(batch.seen[row])[-1])
    labelled = np.flatnonzero(batch.labels[row] >= 0)
    assert labelled[0] > last, "responses come after images"
    return [int(token) for token in batch.tokens[row, : labelled[0] + 1]]


def _both_moments(pixels: Tensor) -> Tensor:
    """Patches × 1176, as the processor gives them: channel, moment, pixel."""
    grids, places, moments, _ = pixels.shape
    channels = pixels.view(grids * places, moments, 3, -1)
    if moments == 1:
        channels = channels.expand(-1, 2, -1, -1)
    return channels.permute(0, 2, 1, 3).reshape(grids * places, -1)

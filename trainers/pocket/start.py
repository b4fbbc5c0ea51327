"""Weights to go on from: those of an earlier training of pocket."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from harness.errors import ModelError
from harness.models.backends.checkpoint import find, fingerprint
from harness.models.backends.networks import load_network
from harness.trainers.pocket.record import RECORD

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def begin_from(checkpoint: str, network: "PreTrainedModel") -> dict[str, object]:
    """Put a checkpoint of pocket into a network of the same sizes.

    Returns the record of its training, with the `fingerprint` of the weights.

    Its heads and its optimisers' moments are not there any more.

    Raises:
        ModelError: there is none, or it is of another architecture, or has no record.
    """
    folder = find(checkpoint)
    earlier = load_network(
        folder, name=checkpoint, dtype="float32", attn_implementation="auto", adapter=None
    )
    try:
        network.load_state_dict(earlier.state_dict())
        before: dict[str, object] = json.loads((folder / RECORD).read_text("utf-8"))
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"start={checkpoint}",
            expected="a checkpoint of `harness train --method pocket` of these sizes",
            found=" ".join(str(error).split())[:200],
        ) from error
    return before | {"fingerprint": fingerprint(folder)}


def average_weights(
    trained: Mapping[str, torch.Tensor], start: Mapping[str, torch.Tensor], *, part: float
) -> dict[str, torch.Tensor]:
    """Average weights: `part` of the initial ones and the rest of the trained ones.

    >>> average_weights({"w": torch.tensor([1.0])}, {"w": torch.tensor([3.0])}, part=0.25)
    {'w': tensor([1.5000])}
    """
    return {name: torch.lerp(weight, start[name], part) for name, weight in trained.items()}

"""Weights to go on from: those of an earlier training of pocket."""

import json
from typing import Any

from harness.errors import ModelError
from harness.models.backends.checkpoint import find
from harness.models.backends.networks import load_network
from harness.trainers.pocket.record import RECORD


def begin_from(checkpoint: str, network: Any) -> dict[str, Any]:
    """Put a checkpoint of pocket into a network of the same sizes; the record of its training.

    Its heads and its optimisers' moments are not there any more.

    Raises:
        ModelError: there is none, or it is of another architecture, or has no record.
    """
    folder = find(checkpoint)
    earlier = load_network(folder, name=checkpoint, dtype="float32", attention="auto", adapter=None)
    try:
        network.load_state_dict(earlier.state_dict())
        told: dict[str, Any] = json.loads((folder / RECORD).read_text("utf-8"))
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"start={checkpoint}", expected="a checkpoint of `harness train --method pocket` of "
            "these sizes", found=" ".join(str(error).split())[:200],
        ) from error  # fmt: skip
    return told

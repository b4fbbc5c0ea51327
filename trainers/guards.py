"""Stop a training whose loss, gradient or weights are NaN or infinite.

`check_step` is called before each optimiser step, `check_weights` before each state is written.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor, nn

MAX_NAMED = 3  # samples that an error names


class UnstableTraining(ModelError):
    """A number of a training is NaN or infinite; raised in every process alike."""


def check_step(
    step: int,
    losses: Sequence[float],
    norm: float | None,
    samples: Sequence[Sequence[str]],
    settings: Mapping[str, object],
    *,
    done: str = "No update was made.",
) -> None:
    """Raise UnstableTraining unless the losses and the gradient of a step are finite.

    Args:
        step: Number of the step that would be made, from 1.
        losses: Loss of each batch of this process.
        norm: Norm of the gradient in all processes; None: DeepSpeed does not report it.
        samples: Names of each batch's samples.
        settings: The training's settings, for the advice in the error.
        done: Sentence of the error on whether the step was made.
    """
    wrong = [index for index, loss in enumerate(losses) if not math.isfinite(loss)]
    if not wrong and (norm is None or math.isfinite(norm)):
        return
    batches = [samples[index] for index in wrong if index < len(samples)] or samples
    names = list(dict.fromkeys(name for batch in batches for name in batch))
    faults = [f"a loss of {losses[index]}" for index in wrong[:1]]
    if norm is not None and not math.isfinite(norm):
        faults.append(f"a gradient of norm {norm}")
    more = f" and {len(names) - MAX_NAMED} more" if names[MAX_NAMED:] else ""
    listed = ", ".join(names[:MAX_NAMED]) + more
    raise UnstableTraining(
        f"training, step {step}",
        expected="a finite loss and gradient",
        found=" and ".join(faults) + (f", of samples {listed}" if names else ""),
        fix=f"{done} {advice(settings)}",
    )


def advice(settings: Mapping[str, object]) -> str:
    """Return the advice of these errors: which settings to change, and what they are now."""
    now = ", ".join(
        f"{name}={settings[name]}"
        for name in ("learning_rate", "max_grad_norm", "dtype", "bf16")
        if name in settings
    )
    return (
        "Begin a training with a lower learning_rate, a limit of the gradient (max_grad_norm=1) or "
        f"float32 (dtype=float32, bf16=false); they are {now}. It may start from a checkpoint of "
        "this one (save_total_limit=2 keeps them)."
    )


def check_weights(network: "nn.Module", settings: Mapping[str, object], *, rank: int = 0) -> None:
    """Raise UnstableTraining if a trained weight is NaN or infinite: no state may hold it.

    Of weights that ZeRO-3 shards, the part of process `rank` is checked.
    """
    for name, weight in network.named_parameters():
        if weight.requires_grad and not _is_finite(_own_part(weight, rank)):
            raise UnstableTraining(
                f"training, weight {name}",
                expected="finite numbers",
                found="NaN or infinity, after the last update",
                fix=f"No state was written. {advice(settings)}",
            )


def _own_part(weight: "Tensor", rank: int) -> "Tensor":
    """Return a weight, or its shard in process `rank` without the padding of the last shard."""
    shard = getattr(weight, "ds_tensor", None)
    if shard is None:
        return weight
    own_part: Tensor = shard[: max(0, weight.ds_numel - rank * shard.ds_numel)]  # type: ignore[attr-defined]
    return own_part


def _is_finite(weight: "Tensor") -> bool:
    # The sum is finite only if all numbers are. It may overflow: then each number is checked.
    return bool(weight.detach().sum().isfinite()) or bool(weight.detach().isfinite().all())

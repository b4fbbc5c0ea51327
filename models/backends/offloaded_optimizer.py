"""AdamW on the CPU, for networks whose gradients and moments do not fit the device.

The device holds the weights, and one gradient at a time: each gradient is added to a sum on the CPU
as soon as it is complete. `step` is AdamW's own on copies of the weights on the CPU, which are then
copied back; on a CPU it is bit-equal to AdamW's. `restored_weights` uses it for test-time training.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, overload

import torch
from torch import Tensor, nn


class OffloadedAdamW(torch.optim.AdamW):
    """AdamW over CPU copies of weights on a device; `close` detaches it from the network."""

    def __init__(self, groups: Iterable[Mapping[str, Any]], lr: float) -> None:
        """Copy the weights of groups (`params`, `weight_decay`), and collect their gradients."""
        self._pairs: list[tuple[nn.Parameter, nn.Parameter]] = []
        """Each weight of the network, and its copy on the CPU."""
        copies = [{**group, "params": list(map(self._copy, group["params"]))} for group in groups]
        super().__init__(copies, lr=lr)
        self._hooks = [
            weight.register_post_accumulate_grad_hook(partial(_collect, copy))
            for weight, copy in self._pairs
        ]

    def _copy(self, weight: nn.Parameter) -> nn.Parameter:
        copy = nn.Parameter(weight.detach().to("cpu", copy=True))
        self._pairs.append((weight, copy))
        return copy

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Step on the CPU, and copy the weights to the device."""
        loss: float | None
        loss = super().step(closure) if closure is not None else super().step()
        self.restore()
        return loss

    def restore(self) -> None:
        """Put the weights as they are after the last step into the network.

        Assigning by `data` hides the change from autograd: gradients may still go through a prompt
        that was read before other weights took their place for a while.
        """
        for weight, copy in self._pairs:
            weight.data.copy_(copy.data)

    def close(self) -> None:
        """Stop collecting gradients."""
        for hook in self._hooks:
            hook.remove()


def _collect(copy: nn.Parameter, weight: Tensor) -> None:
    """Add a weight's gradient to that of its copy, and free it."""
    assert weight.grad is not None, "the hook runs after a gradient was accumulated"
    gradient = weight.grad.to("cpu", copy=True)
    copy.grad = gradient if copy.grad is None else copy.grad.add_(gradient)
    weight.grad = None

"""Let weights learn from one sample and put them back afterwards, which a fingerprint proves.

Test-time training (`adaptation`) gets the network and an optimizer here, and resets the weights
between samples. Weights that learn are float32: a rate of 5e-7 is rounded away in bfloat16.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harness.adaptation import LearningSettings
from harness.errors import ModelError, NotRestored, raised_as
from harness.models.backends.offloaded_optimizer import OffloadedAdamW
from harness.models.learning import weights

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

N_BLOCKS, BLOCK_SIZE = 16, 1024
"""Number of blocks that the fingerprint reads of a tensor, and of numbers in a block. A tensor that
is not larger than all blocks together is read whole."""


def fingerprint(network: "PreTrainedModel", *, complete: bool = False) -> str:
    """Return a BLAKE2b hash (32 hex digits) of blocks of every weight and buffer of a network.

    Blocks are spread evenly over a tensor, at the same places each time. `complete`: all is read.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in (*network.named_parameters(), *network.named_buffers()):
        flat = tensor.detach().reshape(-1)
        digest.update(f"{name}\0{tuple(tensor.shape)}\0{tensor.dtype}\0".encode())
        if not complete and flat.numel() > N_BLOCKS * BLOCK_SIZE:
            last_start = flat.numel() - BLOCK_SIZE
            starts = torch.linspace(0, last_start, N_BLOCKS, dtype=torch.float64).long()
            block_indices = starts[:, None] + torch.arange(BLOCK_SIZE)
            flat = flat[block_indices.reshape(-1).to(flat.device)]
        digest.update(flat.contiguous().view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()


@dataclass(eq=False)
class RestoredWeights:
    """The weights of a network that learn, with copies of their first values."""

    checkpoint: str
    """Name of the checkpoint, for messages."""
    load: "Callable[[], PreTrainedModel]"
    settings: LearningSettings
    changed: bool = False
    """True from the making of an optimizer to the next `reset`."""
    _adapter: "PeftModel | None" = None
    """The network in PEFT's wrapper, if an adapter learns."""
    _offloaded: OffloadedAdamW | None = None
    """The last optimizer, if it holds copies of the weights on the CPU."""

    def prepare(self) -> None:
        """Load the network and copy its first weights.

        Raises:
            ModelError: it has no layers of a language model that can learn.
        """
        assert self._first is not None, "loading raises otherwise"

    @cached_property
    def network(self) -> "PreTrainedModel":
        """The network; after `prepare`, with the adapter's layers if an adapter learns."""
        return self.load()

    @cached_property
    def _first(self) -> dict[str, Tensor]:
        """First values of the weights that learn, by name, on the CPU. Freezes the others."""
        network = self.network
        if self.settings.finetune == "lora":
            self._put_adapter(network)
        elif any(weights.is_of_tower(name) for name, _ in network.named_parameters()):
            weights.freeze_vision(network)
        learning = self._learning
        if not any(weights.is_language(name) for name in learning):
            raise ModelError(
                f"adaptation of checkpoint {self.checkpoint}",
                expected="layers of a language model that can learn",
                found=f"{len(learning)} other tensors" if learning else "none",
                fix=f"Their names are those of {weights.LAYERS['language']}.",
            )
        self._known = fingerprint(network)
        return {name: weight.detach().to("cpu", copy=True) for name, weight in learning.items()}

    def _put_adapter(self, network: "PreTrainedModel") -> None:
        """Put a new LoRA adapter on the layers of the language model; ModelError without any."""
        what = f"adaptation of checkpoint {self.checkpoint}"
        expected = "layers of a language model that an adapter can be put on"
        with torch.random.fork_rng(devices=[]), raised_as(ModelError, what, expected, ValueError):
            torch.manual_seed(self.settings.seed)
            self._adapter = weights.with_adapter(
                network,
                r=self.settings.lora_r,
                lora_alpha=self.settings.lora_alpha,
                layers="language",
            )

    @property
    def _learning(self) -> dict[str, Any]:
        """The weights that learn, by name."""
        return {
            name: weight
            for name, weight in self.network.named_parameters()
            if weight.requires_grad and weight.is_floating_point()
        }

    def reset(self) -> None:
        """Put the first weights back, and compare the network's fingerprint with the first one.

        Raises:
            NotRestored: the fingerprints differ.
        """
        if self._offloaded is not None:
            self._offloaded.close()
            self._offloaded = None
        with torch.no_grad():
            for name, weight in self._learning.items():
                weight.grad = None
                weight.copy_(self._first[name])
            present = fingerprint(self.network)
        if present != self._known:
            raise NotRestored(
                f"weights of checkpoint {self.checkpoint} after adaptation",
                expected=f"the fingerprint {self._known}, as before",
                found=present,
                fix="Another part of the program has changed them.",
            )
        self.changed = False

    def optimizer(self) -> torch.optim.Optimizer:
        """Return a new AdamW over the weights that learn, which count as `changed` from now on."""
        self.changed = True
        groups = weights.decayed(self.network, self.settings.weight_decay)
        if self.settings.offload == "optimizer":
            self._offloaded = OffloadedAdamW(groups, lr=self.settings.rate)
            return self._offloaded
        return torch.optim.AdamW(groups, lr=self.settings.rate)

    @contextmanager
    def with_first_weights(self) -> Iterator[None]:
        """Let the network compute with its first weights inside the block, without gradients."""
        first, learning = self._first, self._learning
        if self._adapter is not None:
            with self._adapter.disable_adapter(), torch.no_grad():
                yield
            return
        if self._offloaded is not None:  # the device has room for one copy of the weights
            try:
                with torch.no_grad():
                    for name, weight in learning.items():
                        weight.data.copy_(first[name])
                    yield
            finally:
                self._offloaded.restore()
            return
        # Both copies fit on the device: exchange the data, which hides the change from autograd.
        learned = {name: weight.data for name, weight in learning.items()}
        try:
            for name, weight in learning.items():
                weight.data = first[name].to(weight.device)
            with torch.no_grad():
                yield
        finally:
            for name, weight in learning.items():
                weight.data = learned[name]

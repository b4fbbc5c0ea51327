"""How long a network computes, and what it is given: hooks around its forward pass.

Nothing of harness is needed, for this runs in the environments of both sides.
"""

import hashlib
from time import perf_counter
from typing import Any


class Busy:
    """Counts forward passes and their seconds. On a GPU each one is waited for, on both sides.

    `generate` looks at images before the network's forward pass, and a network that is called
    within it: what looks at images has hooks of its own, and is counted once.
    """

    def __init__(self, network: Any) -> None:
        self.reset()
        self._began, self._depth = 0.0, 0
        eyes = network.model.visual
        eyes.register_forward_pre_hook(lambda *_: self._enter())
        eyes.register_forward_hook(lambda eyes, given, output: self._leave(given[0]))
        network.register_forward_pre_hook(lambda *_: self._enter())
        network.register_forward_hook(self._end, with_kwargs=True)

    def reset(self) -> None:
        """Count from nothing."""
        self.seconds, self.prefills, self.steps = 0.0, 0, 0
        self._prompts: list[tuple[Any, Any]] = []

    def _enter(self) -> None:
        if self._depth == 0:
            self._began = perf_counter()
        self._depth += 1

    def _leave(self, tensor: Any) -> None:
        self._depth -= 1
        if self._depth:
            return
        if tensor.is_cuda:
            import torch

            torch.cuda.synchronize()
        self.seconds += perf_counter() - self._began

    def _end(self, network: Any, given: Any, named: dict[str, Any], output: Any) -> None:
        tokens = named["input_ids"]
        self._leave(tokens)
        if tokens.shape[1] == 1:
            self.steps += 1
            return
        self.prefills += 1
        mask = named.get("attention_mask")  # some give none where nothing is padded
        self._prompts.append((tokens, tokens.new_ones(tokens.shape) if mask is None else mask))

    def found(self) -> dict[str, Any]:
        """Return what was counted; `prompts` has a hash of each prompt's own tokens, sorted."""
        own = [
            tokens[mask.bool()].tolist()
            for batch in self._prompts
            for tokens, mask in zip(*batch, strict=True)
        ]
        hashes = [hashlib.blake2b(repr(one).encode(), digest_size=8).hexdigest() for one in own]
        return {
            "busy": self.seconds,
            "prefills": self.prefills,
            "steps": self.steps,
            "prompts": sorted(hashes),
        }

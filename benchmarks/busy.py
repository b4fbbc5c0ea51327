"""How often a network computes and what it is given; and measuring on request.

Nothing of harness is needed, for this runs in the environments of both sides.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any


class Busy:
    """Counts the forward passes of a network, of prompts and of single tokens."""

    def __init__(self, network: Any) -> None:
        self.reset()
        forward = network.forward

        @wraps(forward)  # a hook would keep harness from computing tokens beside the network
        def counted(*arguments: Any, **named: Any) -> Any:
            self._count(named)
            return forward(*arguments, **named)

        network.forward = counted

    def reset(self) -> None:
        """Count from nothing."""
        self.prefills, self.steps = 0, 0
        self._prompts: list[tuple[Any, Any]] = []

    def count_steps(self, module: Any, name: str) -> None:
        """Count the calls of a function for single tokens that do not call the network."""
        step = getattr(module, name)

        def counted(*arguments: Any) -> Any:
            before = self.steps
            scores = step(*arguments)
            self.steps = before + 1
            return scores

        setattr(module, name, counted)

    def _count(self, named: dict[str, Any]) -> None:
        tokens = named["input_ids"]
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
        hashes = [hashlib.blake2b(repr(row).encode(), digest_size=8).hexdigest() for row in own]
        return {"prefills": self.prefills, "steps": self.steps, "prompts": sorted(hashes)}


def serve(measure: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    """Measure with the settings of each line of the input; write what was found to `result`."""
    for line in sys.stdin:
        settings = json.loads(line)
        result = Path(settings["result"])
        part = result.with_suffix(".part")
        part.write_text(json.dumps(measure(settings)), encoding="utf-8")
        part.replace(result)

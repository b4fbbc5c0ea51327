"""One request's way through a network: what it was given, what it answered, and how probable."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.chat import ChatRequest, ChatResponse
from harness.media import Frame

Floats: TypeAlias = NDArray[np.float64]
Tensors: TypeAlias = Mapping[str, NDArray[np.float32]]
"""Tensors of a processor by name, without those of the tokens."""


@dataclass(frozen=True, kw_only=True)
class Variation:
    """A request as it may reach a network when something on the way changes it."""

    request: ChatRequest
    template: Mapping[str, object] = field(default_factory=dict)
    """Variables of the chat template in place of the backend's own; None leaves one out."""
    doubled: bool = False
    """True: the first token of the prompt stands twice."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Examination:
    """A network's inputs for a request, and its probabilities of the tokens of a response."""

    prompt: tuple[int, ...]
    """Tokens of the prompt, those in place of images included."""
    tensors: Tensors
    logprobs: Floats
    """Log-probability of each token of the response, as far as it can be told, before any penalty
    or temperature."""
    best: Floats
    """Log-probability of the likeliest token in the place of each of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """A response, with what is known of the network's inputs; None: not known."""

    response: ChatResponse
    images: tuple[Frame, ...] | None = None
    """Images and frames as they were handed over, before the processor's own resizing."""
    times: tuple[float | None, ...] | None = None
    """Seconds of each of them, as handed over; None of one without a time."""
    prompt: tuple[int, ...] | None = None
    """Tokens of the prompt, those in place of images included."""
    tensors: Tensors | None = None
    logprobs: Floats | None = None
    """Log-probability of each token of the response, before any penalty or temperature."""

    @property
    def prompt_tokens(self) -> int | None:
        """Number of tokens of the prompt."""
        return self.response.prompt_tokens or None if self.prompt is None else len(self.prompt)

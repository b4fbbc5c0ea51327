"""Observations of one request: a network's inputs, its response, and the response's probability.

`Chat.observe` and `Chat.examine` return them; `harness.leaderboards.certification` compares the
observations of two backends, to show that both give a network the same inputs. Images are height ×
width × 3, uint8, RGB; log-probabilities are in nats.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.chat import ChatRequest, ChatResponse
from harness.media import Frame

Floats: TypeAlias = NDArray[np.float64]
Tensors: TypeAlias = Mapping[str, NDArray[np.float32]]
"""Tensors that a processor makes of images, by name: all its outputs but those of tokens."""


@dataclass(frozen=True, kw_only=True)
class Variation:
    """A request with a change on its way to the network, such as another chat template."""

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
    """Log-probability of each token of the response, before any penalty or temperature; it ends
    before the first token that marks an image."""
    best: Floats
    """Log-probability of the likeliest token at each place of `logprobs`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """A response, with what is known of the network's inputs; None: not known."""

    response: ChatResponse
    images: tuple[Frame, ...] | None = None
    """Images and frames as they were handed over, before the processor's own resizing."""
    times: tuple[float | None, ...] | None = None
    """Seconds of each image, as handed over; None: it has no time."""
    prompt: tuple[int, ...] | None = None
    """Tokens of the prompt, those in place of images included."""
    tensors: Tensors | None = None
    logprobs: Floats | None = None
    """Log-probability of each token of the response, before any penalty or temperature."""

    @property
    def prompt_tokens(self) -> int | None:
        """Number of tokens of the prompt."""
        if self.prompt is not None:
            return len(self.prompt)
        return self.response.prompt_tokens or None  # 0: the backend does not count them

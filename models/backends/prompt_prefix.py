"""Prompts that are read once, for responses of which gradients are computed.

A prompt is read with gradients: its keys and values serve several responses (`states_after`), and
what is gathered at them goes through the prompt once. At test time (`PromptReader`) the vision
tower is frozen, so that what it gives to the layers that merge patches is computed once a request.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from harness.chat import ChatRequest
from harness.errors import ModelError
from harness.models.backends.continuous_batching import (
    positions_as_read,
    supports_continuous_batching,
    token_positions,
)
from harness.models.backends.inputs import POSITIONS, joined_inputs, processor_inputs, with_tokens
from harness.models.backends.positions import beyond, positions_of

if TYPE_CHECKING:
    from torch import nn
    from transformers import BatchFeature, PreTrainedModel, ProcessorMixin


@dataclass(frozen=True, eq=False)
class Prefix:
    """Prompts that were read: keys and values of every layer, and the last tokens' states."""

    layers: list[tuple[Tensor, Tensor]]
    """Keys and values (prompts × heads × length × width)."""
    last: Tensor
    """Hidden state of each prompt's last token (prompts × 1 × width)."""
    mask: Tensor
    """1 for tokens of a prompt, 0 for the padding before them (prompts × length)."""
    after: Tensor
    """Position of the first token that follows each prompt (prompts × 1)."""

    @property
    def tensors(self) -> list[Tensor]:
        """All of its tensors, in one order."""
        return [tensor for both in self.layers for tensor in both] + [self.last]

    def detached(self, *, learns: bool) -> "Prefix":
        """Return the same numbers without their history; `learns`: gradients are kept at them."""
        layers = [
            (keys.detach().requires_grad_(learns), values.detach().requires_grad_(learns))
            for keys, values in self.layers
        ]
        return replace(self, layers=layers, last=self.last.detach().requires_grad_(learns))

    def backward(self, leaves: "Prefix") -> None:
        """Let gradients that were gathered at `leaves`, detached of it, go through the prompts."""
        pairs = [
            (state, leaf.grad)
            for state, leaf in zip(self.tensors, leaves.tensors, strict=True)
            if leaf.grad is not None and state.requires_grad
        ]
        if pairs:
            states, gradients = zip(*pairs, strict=True)
            torch.autograd.backward(states, gradients)


def read_prompts(network: "PreTrainedModel", inputs: Mapping[str, Tensor]) -> Prefix:
    """Read prompts with their `token_positions`, with gradients unless they are off."""
    cache, positions = DynamicCache(), inputs[POSITIONS]
    given = {**inputs, POSITIONS: positions_as_read(network, positions)}
    output = network.base_model(**given, past_key_values=cache, use_cache=True)
    layers = [(layer.keys, layer.values) for layer in cache.layers]
    after = positions[-1, :, -1:] + 1
    return Prefix(layers, output.last_hidden_state[:, -1:], inputs["attention_mask"], after)


def states_after(
    network: "PreTrainedModel",
    prefix: Prefix,
    tokens: Tensor,
    mask: Tensor,
    prompts: Tensor | None = None,
) -> Tensor:
    """Return the states that predict each token of responses (rows × tokens × width).

    Args:
        network: One that `supports_continuous_batching`.
        prefix: The prompts as they were read.
        tokens: Tokens of the responses, padded on the right (rows × tokens).
        mask: 1 for each of them (rows × tokens).
        prompts: Index of each row's prompt (rows); None: all rows have the only one.
    """
    rows, width = tokens.shape

    def each(tensor: Tensor) -> Tensor:
        if prompts is None or len(tensor) == 1:  # copies nothing, and gradients are summed in order
            return tensor.expand(rows, *tensor.shape[1:])
        return tensor.index_select(0, prompts)

    first = each(prefix.last)
    if width == 1:
        return first
    cache = DynamicCache()
    for number, both in enumerate(prefix.layers):
        layer = DynamicLayer()
        layer.lazy_initialization(*both)
        layer.keys, layer.values = map(each, both)
        cache.layers.insert(number, layer)
    places = each(prefix.after) + torch.arange(width - 1, device=tokens.device)
    output = network.base_model(
        input_ids=tokens[:, :-1],
        attention_mask=torch.cat([each(prefix.mask), mask[:, :-1].to(prefix.mask)], dim=1),
        position_ids=positions_as_read(network, places[None]),
        past_key_values=cache,
        use_cache=True,
    )
    return torch.cat([first, output.last_hidden_state], dim=1)


@dataclass(eq=False)
class PromptReader:
    """The prompts of one sample, for a network whose vision tower does not change meanwhile."""

    network: "PreTrainedModel"
    processor: "ProcessorMixin"
    shares: bool
    """Read a prompt once for all of its responses, and an image once a request."""
    _inputs: "dict[ChatRequest, BatchFeature]" = field(default_factory=dict)
    _features: dict[ChatRequest, dict[int, Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read every row alone if rows of this network cannot be parted from their prompts."""
        kind = self.network.config.model_type
        self.shares = self.shares and supports_continuous_batching(self.network, kind)

    def inputs(self, request: ChatRequest) -> "BatchFeature":
        """Return the processor's tensors, with positions of tokens if prompts are shared.

        Raises:
            ModelError: prompt and response may go beyond the network's positions.
        """
        if request not in self._inputs:
            inputs = processor_inputs(self.processor, [request]).to(self.network.device)
            length, positions = inputs["input_ids"].shape[1], positions_of(self.network.config)
            if why := beyond(length, request.max_new_tokens, positions):
                raise ModelError(
                    f"adaptation to request {request.key}",
                    expected="a prompt and a response within the network's positions",
                    found=why,
                    fix="Lower max_new_tokens, or show fewer frames or pixels.",
                )
            if self.shares:
                inputs[POSITIONS] = token_positions(self.network, inputs)
            self._inputs[request] = inputs
        return self._inputs[request]

    def read(self, request: ChatRequest) -> Prefix:
        """Read a prompt, with gradients unless they are off."""
        with self._known_features(request):
            return read_prompts(self.network, self.inputs(request))

    def states_alone(self, request: ChatRequest, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return the same states from prompts and responses as one row each."""
        prompt = {
            name: tensor for name, tensor in self.inputs(request).items() if name != POSITIONS
        }
        # Of one row `joined_inputs` returns the prompt itself, which is kept.
        inputs = with_tokens(
            dict(joined_inputs(self.processor, [prompt] * len(tokens))), tokens, mask
        )
        hidden: Tensor = self.network.base_model(**inputs, use_cache=False).last_hidden_state
        return hidden[:, -tokens.shape[1] - 1 : -1]

    def _known_features(self, request: ChatRequest) -> AbstractContextManager[None]:
        """Let the vision tower's blocks give what they gave to the same request before."""
        tower = getattr(self.network.base_model, "visual", None)
        if tower is None or not self.inputs(request).keys() & {
            "pixel_values",
            "pixel_values_videos",
        }:
            return nullcontext()
        return _replayed(tower, self._features.setdefault(request, {}))


@contextmanager
def _replayed(tower: "PreTrainedModel", known: dict[int, Tensor]) -> Iterator[None]:
    """Note what the blocks give that is used behind them; once it is known, give that instead.

    Behind the blocks are the merging layers: after the last one, and in Qwen3-VL after some others.
    """
    used = {len(tower.blocks) - 1, *getattr(tower, "deepstack_visual_indexes", ())}
    ready = used <= set(known)

    def forward(place: int, block: "nn.Module") -> Callable[..., Tensor]:
        def noted(states: Tensor, *given: object, **named: object) -> Tensor:
            if ready:
                return known.get(place, states)
            with torch.no_grad():
                given_on: Tensor = type(block).forward(block, states, *given, **named)
            if place in used:
                known[place] = given_on
            return given_on

        return noted

    try:
        for place, block in enumerate(tower.blocks):
            block.forward = forward(place, block)
        yield
    finally:
        for block in tower.blocks:
            del block.forward

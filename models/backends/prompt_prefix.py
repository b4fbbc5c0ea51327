"""Read a prompt once for several responses whose gradients are computed.

`read_prompts` gives a prompt's keys and values, with gradients; `states_after` computes the hidden
states of several responses from them. Gradients are summed at the keys and values, and go back
through the prompt once. The GRPO trainers use both. Test-time training uses `PromptReader`: its
vision tower is frozen, so that the outputs of the tower's blocks are computed once a request.
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
from harness.models.backends.inputs import POSITIONS, joined_inputs, processor_inputs, with_tokens
from harness.models.backends.positions import beyond, positions_of
from harness.models.backends.token_positions import (
    positions_as_read,
    supports_continuous_batching,
    token_positions,
)

if TYPE_CHECKING:
    from torch import nn
    from transformers import BatchFeature, PreTrainedModel, ProcessorMixin


@dataclass(frozen=True, eq=False)
class Prefix:
    """Prompts as a network has read them: keys and values of layers, states of the last tokens."""

    layers: list[tuple[Tensor, Tensor]]
    """Keys and values of each layer (prompts × heads × length × width)."""
    last: Tensor
    """Hidden state of each prompt's last token (prompts × 1 × width)."""
    mask: Tensor
    """1 for tokens of a prompt, 0 for the padding before them (prompts × length)."""
    after: Tensor
    """Position of the first token that follows each prompt (prompts × 1)."""

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors that may have gradients, in a fixed order."""
        return [tensor for layer in self.layers for tensor in layer] + [self.last]

    def detached(self, *, learns: bool) -> "Prefix":
        """Return the same values detached from the graph; `learns`: they collect gradients."""
        layers = [
            (keys.detach().requires_grad_(learns), values.detach().requires_grad_(learns))
            for keys, values in self.layers
        ]
        return replace(self, layers=layers, last=self.last.detach().requires_grad_(learns))

    def backward(self, leaves: "Prefix") -> None:
        """Propagate the gradients of `leaves`, made by `detached`, back through the prompts."""
        pairs = [
            (state, leaf.grad)
            for state, leaf in zip(self.tensors, leaves.tensors, strict=True)
            if leaf.grad is not None and state.requires_grad
        ]
        if pairs:
            states, gradients = zip(*pairs, strict=True)
            torch.autograd.backward(states, gradients)


def read_prompts(network: "PreTrainedModel", inputs: Mapping[str, Tensor]) -> Prefix:
    """Read prompts, with gradients unless autograd is off.

    `inputs` are the processor's tensors with `token_positions` under `POSITIONS`, padded on the
    left.
    """
    cache, positions = DynamicCache(), inputs[POSITIONS]
    arguments = {**inputs, POSITIONS: positions_as_read(network, positions)}
    output = network.base_model(**arguments, past_key_values=cache, use_cache=True)
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
        prefix: The prompts as `read_prompts` returns them.
        tokens: Tokens of the responses, padded on the right (rows × tokens).
        mask: 1 for each token of a response, 0 for padding (rows × tokens).
        prompts: Index of each row's prompt (rows); None: all rows have the only prompt.
    """
    rows, width = tokens.shape

    def per_row(tensor: Tensor) -> Tensor:
        """Repeat a tensor of prompts (prompts × …) for their rows (rows × …)."""
        if prompts is None or len(tensor) == 1:  # copies nothing, and gradients are summed in order
            return tensor.expand(rows, *tensor.shape[1:])
        return tensor.index_select(0, prompts)

    first = per_row(prefix.last)
    if width == 1:
        return first
    cache = DynamicCache()
    for number, (keys, values) in enumerate(prefix.layers):
        layer = DynamicLayer()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = per_row(keys), per_row(values)
        cache.layers.insert(number, layer)
    positions = per_row(prefix.after) + torch.arange(width - 1, device=tokens.device)
    output = network.base_model(
        input_ids=tokens[:, :-1],
        attention_mask=torch.cat([per_row(prefix.mask), mask[:, :-1].to(prefix.mask)], dim=1),
        position_ids=positions_as_read(network, positions[None]),
        past_key_values=cache,
        use_cache=True,
    )
    return torch.cat([first, output.last_hidden_state], dim=1)


@dataclass(eq=False)
class PromptReader:
    """Reads the prompts of one sample, for a network whose vision tower is frozen meanwhile."""

    network: "PreTrainedModel"
    processor: "ProcessorMixin"
    shares: bool
    """Read a prompt once for all its responses; False: prompt and response as one row each."""
    _inputs: "dict[ChatRequest, BatchFeature]" = field(default_factory=dict)
    _features: dict[ChatRequest, dict[int, Tensor]] = field(default_factory=dict)
    """Outputs of the vision tower's blocks, by request and index of the block."""

    def __post_init__(self) -> None:
        """Turn `shares` off for a network that cannot read prompt and response apart."""
        model_type = self.network.config.model_type
        self.shares = self.shares and supports_continuous_batching(self.network, model_type)

    def inputs(self, request: ChatRequest) -> "BatchFeature":
        """Return the processor's tensors (1 × length), with `POSITIONS` if prompts are shared.

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
        """Read a request's prompt, with gradients unless autograd is off."""
        with self._reused_features(request):
            return read_prompts(self.network, self.inputs(request))

    def states_alone(self, request: ChatRequest, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return the same as `states_after`, reading prompt and response together in each row."""
        prompt = {
            name: tensor for name, tensor in self.inputs(request).items() if name != POSITIONS
        }
        # Copied by `dict`: for one row, `joined_inputs` returns the prompt in `_inputs` itself.
        inputs = with_tokens(
            dict(joined_inputs(self.processor, [prompt] * len(tokens))), tokens, mask
        )
        hidden: Tensor = self.network.base_model(**inputs, use_cache=False).last_hidden_state
        return hidden[:, -tokens.shape[1] - 1 : -1]

    def _reused_features(self, request: ChatRequest) -> AbstractContextManager[None]:
        """Return a context in which the vision tower's blocks are computed once a request."""
        tower = getattr(self.network.base_model, "visual", None)
        media_tensors = {"pixel_values", "pixel_values_videos"}
        if tower is None or not media_tensors & self.inputs(request).keys():
            return nullcontext()
        return _cached_blocks(tower, self._features.setdefault(request, {}))


@contextmanager
def _cached_blocks(tower: "PreTrainedModel", cache: dict[int, Tensor]) -> Iterator[None]:
    """Store the outputs of the tower's blocks in an empty `cache`; return them from a filled one.

    Only outputs that merging layers read are stored: those of the last block, and in Qwen3-VL of
    some others. With a filled cache, a block without a stored output passes its input on.
    """
    used = {len(tower.blocks) - 1, *getattr(tower, "deepstack_visual_indexes", ())}
    is_filled = used <= set(cache)

    def cached_forward(index: int, block: "nn.Module") -> Callable[..., Tensor]:
        def forward(states: Tensor, *arguments: object, **keywords: object) -> Tensor:
            if is_filled:
                return cache.get(index, states)
            with torch.no_grad():
                output: Tensor = type(block).forward(block, states, *arguments, **keywords)
            if index in used:
                cache[index] = output
            return output

        return forward

    try:
        for index, block in enumerate(tower.blocks):
            block.forward = cached_forward(index, block)
        yield
    finally:
        for block in tower.blocks:
            del block.forward

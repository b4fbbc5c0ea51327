"""Requests and completions as tensors: prompts as evaluation encodes them, and what follows."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from os import cpu_count
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from harness.chat import ChatRequest
from harness.models.backends.continuous_batching import token_positions
from harness.models.backends.inputs import (
    POSITIONS,
    joined_inputs,
    processor_inputs,
    with_tokens,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

Prompt: TypeAlias = Mapping[str, Tensor]
"""One prompt's tensors: its tokens without padding (1 × length), the patches of its media."""
ROWS = "rows"
"""Key of the index of each row's prompt beside the tensors of `shared_prompts`."""


def encode_prompt(processor: "ProcessorMixin", request: ChatRequest) -> Prompt:
    """Return one prompt, encoded by the function that evaluation uses."""
    made = processor_inputs(processor, [request])
    return {name: torch.as_tensor(value) for name, value in made.items()}


def encoded_each(processor: "ProcessorMixin", requests: Sequence[ChatRequest]) -> list[Prompt]:
    """Return several prompts, in order; equal ones are one object, encoded once."""
    plain = [replace(request, key="") for request in requests]
    alike = list(dict.fromkeys(plain))
    with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
        prompts = pool.map(partial(encode_prompt, processor), alike)
        known = dict(zip(alike, prompts, strict=True))
    return [known[one] for one in plain]


def completed(
    processor: "ProcessorMixin", prompts: Sequence[Prompt], completions: Sequence[Sequence[int]]
) -> dict[str, Tensor]:
    """Return a network's inputs: prompts padded on the left, completions' tokens on the right."""
    ids = padded(completions, processor.tokenizer.pad_token_id)
    seen = padded([1] * len(tokens) for tokens in completions)
    inputs: dict[str, Tensor] = with_tokens(dict(joined_inputs(processor, prompts)), ids, seen)
    return inputs


def shared_prompts(
    network: "PreTrainedModel", processor: "ProcessorMixin", prompts: Sequence[Prompt]
) -> dict[str, Tensor] | None:
    """Return the different prompts of rows, and the index of each row's prompt as `ROWS`.

    None where no two rows have the same prompt, which is one object.
    """
    different = {id(one): one for one in prompts}
    if len(different) == len(prompts):
        return None
    inputs = dict(joined_inputs(processor, list(different.values())))
    places = list(different)
    rows = torch.tensor([places.index(id(one)) for one in prompts])
    return {**inputs, POSITIONS: token_positions(network, inputs), ROWS: rows}


def padded(rows: Iterable[Sequence[float]], fill: float = 0) -> Tensor:
    """Return rows of numbers as one tensor, filled on the right."""
    return pad_sequence(list(map(torch.tensor, rows)), batch_first=True, padding_value=fill)

"""Encode requests and completions as tensors, prompts exactly as evaluation encodes them.

Fine-tuning and GRPO build the inputs of their networks here.
"""

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
from harness.models.backends.inputs import (
    POSITIONS,
    joined_inputs,
    processor_inputs,
    with_tokens,
)
from harness.models.backends.token_positions import token_positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

Prompt: TypeAlias = Mapping[str, Tensor]
"""Tensors of one prompt: `input_ids` without padding (1 × length), and patches of its media."""
ROWS = "rows"
"""Key, in the result of `shared_prompts`, of the index of each row's prompt."""


def encode_prompt(processor: "ProcessorMixin", request: ChatRequest) -> Prompt:
    """Encode a request as a prompt, by the function that evaluation uses."""
    inputs = processor_inputs(processor, [request])
    return {name: torch.as_tensor(value) for name, value in inputs.items()}


def encoded_each(processor: "ProcessorMixin", requests: Sequence[ChatRequest]) -> list[Prompt]:
    """Encode requests in order; those that differ only in their key share one prompt object."""
    keyless = [replace(request, key="") for request in requests]
    different = list(dict.fromkeys(keyless))
    with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
        encoded = pool.map(partial(encode_prompt, processor), different)
        prompts = dict(zip(different, encoded, strict=True))
    return [prompts[request] for request in keyless]


def completed(
    processor: "ProcessorMixin", prompts: Sequence[Prompt], completions: Sequence[Sequence[int]]
) -> dict[str, Tensor]:
    """Return the network's inputs for prompts with their completions (tokens), one a row.

    Prompts are padded on the left, completions on the right.
    """
    ids = padded(completions, processor.tokenizer.pad_token_id)
    is_token = padded([1] * len(tokens) for tokens in completions)
    inputs: dict[str, Tensor] = with_tokens(dict(joined_inputs(processor, prompts)), ids, is_token)
    return inputs


def shared_prompts(
    network: "PreTrainedModel", processor: "ProcessorMixin", prompts: Sequence[Prompt]
) -> dict[str, Tensor] | None:
    """Return inputs of each different prompt once, and under `ROWS` the index of each row's prompt.

    `prompts` has one prompt a row. Rows share a prompt if it is the same object (`encoded_each`).
    None: no two rows do.
    """
    different = {id(prompt): prompt for prompt in prompts}
    if len(different) == len(prompts):
        return None
    inputs = dict(joined_inputs(processor, list(different.values())))
    prompt_ids = list(different)
    rows = torch.tensor([prompt_ids.index(id(prompt)) for prompt in prompts])
    return {**inputs, POSITIONS: token_positions(network, inputs), ROWS: rows}


def padded(rows: Iterable[Sequence[float]], fill: float = 0) -> Tensor:
    """Return rows of numbers as one tensor (rows × longest), filled on the right."""
    return pad_sequence(list(map(torch.tensor, rows)), batch_first=True, padding_value=fill)

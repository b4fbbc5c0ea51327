"""Prompts as tensors: each encoded once, by the function that evaluation uses, then put together.

TRL knows pictures alone, and encodes them a second time for the loss. Here a prompt's tensors
(tokens, patches of pictures and of videos with their times, kinds of tokens) travel with its
rollouts, so that what is written, what is learned and what is evaluated are the same inputs.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from os import cpu_count
from typing import Any

import torch
from torch import Tensor

from harness.model import ChatRequest
from harness.models.backends.inputs import chat_text, processor_inputs
from harness.models.backends.networks import AROUND
from harness.trainers.sft.batches import MARKED

KINDS = tuple(name for name in MARKED if name not in ("input_ids", "attention_mask"))
"""Tensors that say of every token what it is; tokens that are written are text, 0."""
END = AROUND["vision_end_token_id"]
"""What follows every medium in a chat template."""


def encoded(processor: Any, request: ChatRequest) -> dict[str, Tensor]:
    """One prompt: its tokens without padding (1 × length), and the patches of its media."""
    inputs = processor_inputs(processor, [request])
    return {
        name: value if isinstance(value, Tensor) else torch.tensor(value)
        for name, value in inputs.items()
    }


def encoded_each(processor: Any, requests: Sequence[ChatRequest]) -> list[dict[str, Tensor]]:
    """Several prompts, in order; those that ask the same are encoded once."""
    alike = {replace(request, key=""): request for request in requests}
    with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
        made = pool.map(partial(encoded, processor), alike.values())
        known = dict(zip(alike, made, strict=True))
    return [known[replace(request, key="")] for request in requests]


def encoded_beside(
    processor: Any,
    requests: Sequence[ChatRequest],
    firsts: Sequence[tuple[ChatRequest, Mapping[str, Tensor]]],
) -> list[Mapping[str, Tensor]]:
    """Prompts of requests, each beside one that is encoded and may show the same media."""
    pairs = zip(requests, firsts, strict=True)
    made = [reworded(processor, request, *first) for request, first in pairs]
    left = [one for one, prompt in zip(requests, made, strict=True) if prompt is None]
    rest = iter(encoded_each(processor, left) if left else ())
    return [next(rest) if prompt is None else prompt for prompt in made]


def reworded(
    processor: Any, request: ChatRequest, other: ChatRequest, prompt: Mapping[str, Tensor]
) -> dict[str, Tensor] | None:
    """The prompt of a request, made of that of another one with the same media.

    Only the words after the last medium are encoded; pictures are not looked at again. None where
    the two do not begin alike up to there.
    """
    same = replace(
        other,
        key=request.key,
        text=request.text,
        prefix=request.prefix,
        stop=request.stop,
        max_new_tokens=request.max_new_tokens,
    )
    head, end, tail = chat_text(processor, request).rpartition(END)
    if same != request or not end or head != chat_text(processor, other).rpartition(END)[0]:
        return None
    tokens = prompt["input_ids"][0]
    ends = (tokens == processor.tokenizer.convert_tokens_to_ids(END)).nonzero()
    length = int(ends[-1]) + 1
    words = processor.tokenizer(tail, add_special_tokens=False)["input_ids"]
    rest = {"input_ids": words, "attention_mask": [1] * len(words)}
    marked = {
        name: torch.cat([prompt[name][:, :length], prompt[name].new_tensor([rest[name]])], 1)
        if name in rest
        else torch.nn.functional.pad(prompt[name][:, :length], (0, len(words)))
        for name in MARKED
        if name in prompt
    }
    return {**prompt, **marked}


def tokens_of(prompt: Mapping[str, Tensor]) -> list[int]:
    """The tokens of one prompt."""
    return [int(token) for token in prompt["input_ids"][0]]


def joined(prompts: Sequence[Mapping[str, Tensor]], *, padding: int) -> dict[str, Tensor]:
    """A batch of prompts, padded on the left: equal to encoding them together."""
    width = max(prompt["input_ids"].shape[1] for prompt in prompts)
    marked = {
        name: torch.cat(
            [
                _left(prompt[name], width, padding if name == "input_ids" else 0)
                for prompt in prompts
            ]
        )
        for name in MARKED
        if name in prompts[0]
    }
    return {**marked, **patches(prompts)}


def patches(prompts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """What the media of several prompts show, in their order."""
    names = dict.fromkeys(name for prompt in prompts for name in prompt if name not in MARKED)
    return {
        name: torch.cat([prompt[name] for prompt in prompts if name in prompt]) for name in names
    }


def kinds(prompts: Sequence[Mapping[str, Tensor]], width: int, written: int) -> dict[str, Tensor]:
    """Kinds of tokens for prompts padded on the left to `width`, and `written` tokens after."""
    return {
        name: torch.nn.functional.pad(
            torch.cat([_left(prompt[name], width, 0) for prompt in prompts]), (0, written)
        )
        for name in KINDS
        if name in prompts[0]
    }


def _left(tokens: Tensor, width: int, fill: int) -> Tensor:
    return torch.nn.functional.pad(tokens, (width - tokens.shape[1], 0), value=fill)

"""Examine a network in this process: the tensors of a request, and the probability of a response.

`TransformersChat.observe` and `.examine` call it; `harness.observation` defines their results,
`Observation` and `Examination`.
"""

from collections.abc import Sequence
from copy import copy
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness.chat import ChatRequest, ChatResponse
from harness.media import Frame
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.inputs import TOKEN_TENSORS, processor_inputs, template_of, with_tokens
from harness.models.backends.loading import memory
from harness.models.backends.shown_media import clip_times, frames_shown, squashed
from harness.observation import Examination, Observation, Variation

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import BatchFeature, PreTrainedModel, ProcessorMixin


class Examined(Protocol):
    """The parts of a backend that an examination needs; `TransformersChat` has them."""

    @property
    def network(self) -> "PreTrainedModel": ...  # noqa: D102
    @property
    def folder(self) -> "Path": ...  # noqa: D102
    @property
    def processor(self) -> "ProcessorMixin": ...  # noqa: D102
    @property
    def real_device(self) -> str: ...  # noqa: D102


def examination(chat: Examined, variation: Variation, tokens: Sequence[int]) -> Examination:
    """Return the inputs of a request, and the log-probabilities of a response's tokens.

    Args:
        chat: The backend.
        variation: The request, and how its inputs are varied.
        tokens: Token ids of the response. They count up to the first media token, which only
            random networks write: the network would take it for an image without features.
    """
    import torch

    media_tokens = checkpoints.media_tokens(chat.folder)
    tokens = list(takewhile(lambda token: token not in media_tokens, tokens))
    inputs = _inputs(chat.processor, variation)
    prompt = tuple(inputs["input_ids"][0].tolist())
    tensors = {
        name: tensor.float().numpy() for name, tensor in inputs.items() if name not in TOKEN_TENSORS
    }
    network = chat.network  # load it before inference mode, whose tensors cannot be trained
    with memory(), torch.inference_mode():
        batch = with_tokens(inputs, [tokens]).to(chat.real_device) if tokens else inputs
        logits = network(**batch, use_cache=False, logits_to_keep=len(tokens) + 1).logits[0, :-1]
        scores = logits.float().log_softmax(dim=-1)
        chosen = scores.gather(1, torch.tensor(tokens, device=scores.device).long()[:, None])
        best = scores.amax(dim=-1) if tokens else chosen[:, 0]  # both empty without tokens
    return Examination(
        prompt=prompt,
        tensors=tensors,
        logprobs=chosen[:, 0].cpu().numpy().astype(np.float64),
        best=best.cpu().numpy().astype(np.float64),
    )


def observation(chat: Examined, request: ChatRequest, response: ChatResponse) -> Observation:
    """Return a response with the images, times, prompt and tensors that the network got for it."""
    examined = examination(chat, Variation(request=request), response.tokens)
    images: list[Frame] = []
    times: list[float | None] = []
    for media_index, media in enumerate(request.media):
        indices = frames_shown(request, media_index)
        images += [
            squashed(media.frame(index), request.squash(media_index), request.resample)
            for index in indices
        ]
        rate = clip_times(media, indices)["fps"]
        assert isinstance(rate, float), "as `clip_times` makes it"
        seconds = request.told(media_index) or [float(index / rate) for index in indices]
        times += seconds if len(indices) > 1 else [None]
    return Observation(
        response=response,
        images=tuple(images),
        times=tuple(times),
        prompt=examined.prompt,
        tensors=examined.tensors,
        logprobs=examined.logprobs,
    )


def _inputs(processor: "ProcessorMixin", variation: Variation) -> "BatchFeature":
    """Return the tensors of a request, with other template variables or a doubled first token."""
    if variation.template:
        variables = {**getattr(processor, "chat_template_kwargs", {}), **variation.template}
        processor = copy(processor)
        template = str(template_of(processor))  # a variable that it lacks would cause a warning
        processor.chat_template_kwargs = {
            name: value
            for name, value in variables.items()
            if value is not None and name in template
        }
    inputs = processor_inputs(processor, [variation.request])
    if variation.doubled:
        import torch

        for name in TOKEN_TENSORS:
            if name in inputs:
                inputs[name] = torch.cat([inputs[name][:, :1], inputs[name]], dim=1)
    return inputs

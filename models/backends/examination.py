"""A network in this process, examined: its inputs, and its probabilities of a given response."""

from collections.abc import Sequence
from copy import copy
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness.chat import ChatRequest, ChatResponse
from harness.media import Frame
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.inputs import A_TOKEN, processor_inputs, template_of, with_tokens
from harness.models.backends.loading import memory
from harness.models.backends.shown_media import clip_times, frames_shown, squashed
from harness.observation import Examination, Observation, Variation

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import BatchFeature, PreTrainedModel, ProcessorMixin


class Examined(Protocol):
    """Parts of a backend that an examination needs, as `transformers.TransformersChat` has them."""

    @property
    def network(self) -> "PreTrainedModel": ...  # noqa: D102
    @property
    def folder(self) -> "Path": ...  # noqa: D102
    @property
    def processor(self) -> "ProcessorMixin": ...  # noqa: D102
    @property
    def real_device(self) -> str: ...  # noqa: D102


def examination(chat: Examined, variation: Variation, tokens: Sequence[int]) -> Examination:
    """Return the inputs of a request, and the log-probabilities of a response's tokens after it.

    Those from the first mark of an image on are left out, which only random networks write.
    """
    import torch

    marks = checkpoints.media_tokens(chat.folder)
    # Forward, a mark of an image in a response would be taken for an image that is missing.
    tokens = list(takewhile(lambda token: token not in marks, tokens))
    inputs = _inputs(chat.processor, variation)
    prompt = tuple(inputs["input_ids"][0].tolist())
    tensors = {
        name: tensor.float().numpy() for name, tensor in inputs.items() if name not in A_TOKEN
    }
    network = chat.network  # loaded before inference mode, whose tensors cannot be trained
    with memory(), torch.inference_mode():
        whole = with_tokens(inputs, [tokens]).to(chat.real_device) if tokens else inputs
        logits = network(**whole, use_cache=False, logits_to_keep=len(tokens) + 1).logits[0, :-1]
        scores = logits.float().log_softmax(dim=-1)
        chosen = scores.gather(1, torch.tensor(tokens, device=scores.device).long()[:, None])
        best = scores.amax(dim=-1) if tokens else chosen[:, 0]
    return Examination(
        prompt=prompt,
        tensors=tensors,
        logprobs=chosen[:, 0].cpu().numpy().astype(np.float64),
        best=best.cpu().numpy().astype(np.float64),
    )


def observation(chat: Examined, request: ChatRequest, response: ChatResponse) -> Observation:
    """Return a response with the inputs that the network had for its request."""
    examined = examination(chat, Variation(request=request), response.tokens)
    images: list[Frame] = []
    times: list[float | None] = []
    for place, media in enumerate(request.media):
        indices = frames_shown(request, place)
        images += [squashed(media.frame(index), request.squash(place)) for index in indices]
        rate = clip_times(media, indices)["fps"]
        assert isinstance(rate, float), "as `clip_times` makes it"
        times += [float(index / rate) if len(indices) > 1 else None for index in indices]
    return Observation(
        response=response,
        images=tuple(images),
        times=tuple(times),
        prompt=examined.prompt,
        tensors=examined.tensors,
        logprobs=examined.logprobs,
    )


def _inputs(processor: "ProcessorMixin", variation: Variation) -> "BatchFeature":
    """Return the tensors of a request as it is varied."""
    if variation.template:
        own = getattr(processor, "chat_template_kwargs", {})
        given = {**own, **variation.template}
        processor = copy(processor)
        known = str(template_of(processor))  # others would be passed over, with a warning each
        processor.chat_template_kwargs = {
            name: value for name, value in given.items() if value is not None and name in known
        }
    inputs = processor_inputs(processor, [variation.request])
    if variation.doubled:
        import torch

        for name in A_TOKEN:
            if name in inputs:
                inputs[name] = torch.cat([inputs[name][:, :1], inputs[name]], dim=1)
    return inputs

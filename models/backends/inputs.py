"""Turn requests into the inputs of a network: texts by the chat template, tensors by the processor.

The `transformers` backend calls `processor_inputs`; the servers' backends share the functions for
messages. Special tokens in a question are always broken up, so that it cannot end its turn.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.chat import ChatRequest
from harness.errors import ModelError, UsageError
from harness.media import Frame
from harness.models.backends.shown_media import (
    check_clip_limits,
    clip_size,
    clip_times,
    frames_shown,
    has_grids,
    keeps_clip_sizes,
    squashed,
)
from harness.models.backends.template_trial import MAX_MEMORY_BYTES, is_bounded

if TYPE_CHECKING:
    from _typeshed import TraceFunction
    from torch import Tensor
    from transformers import BatchFeature, ProcessorMixin

RENDER_SECONDS = 10.0  # seconds that a chat template may take for one prompt
CHARACTERS_A_TOKEN, PIXELS_A_TOKEN = 4, 28 * 28  # estimates for `length`
MAX_PIXELS = 12_845_056  # limit of an image in Qwen2.5-VL's checkpoints
TOKEN_TENSORS = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids")
"""Tensors of a batch with one column for each token (requests × tokens); the others, such as
patches, hold the rows of all requests one after another."""
POSITIONS = "position_ids"
"""Key under which the result of `token_positions` is added to the tensors of a batch."""


def processor_inputs(
    processor: "ProcessorMixin", requests: Sequence[ChatRequest]
) -> "BatchFeature":
    """Return the tensors of a batch: tokens padded on the left, patches of all images and clips."""
    if any(request.written for request in requests):
        inputs = [
            with_tokens(
                processor_inputs(processor, [replace(request, written=())]), [request.written]
            )
            for request in requests
        ]
        return joined_inputs(processor, inputs)
    keeps_sizes = [keeps_clip_sizes(processor, request) for request in requests]
    if any(keeps_sizes) and not all(keeps_sizes):  # a processor resizes all clips or none
        return joined_inputs(
            processor, [processor_inputs(processor, [request]) for request in requests]
        )
    images: list[list[Frame]] = []
    clips: list[Frame] = []
    times: list[dict[str, object]] = []
    pillow_size = clip_size(processor)  # None: the processor resizes clips itself
    for request in requests:
        images.append([])
        for media_index, media in enumerate(request.media):
            indices = frames_shown(request, media_index)
            frames = [
                squashed(media.frame(index), request.squash(media_index), request.resample)
                for index in indices
            ]
            if len(frames) == 1:
                images[-1] += frames
            else:
                check_clip_limits(processor)
                if pillow_size is not None:
                    frames = [squashed(frame, *pillow_size) for frame in frames]
                clips.append(np.stack(frames))
                times.append(clip_times(media, indices, request.told(media_index)))
    extra: dict[str, object] = {}
    if any(images):
        extra["images"] = list(chain(*images)) if has_grids(processor) else images
    if clips:
        extra |= {
            "videos": clips,
            "video_metadata": times,
            "do_sample_frames": False,
            # transformers announced another default; the number of frames limits a clip's cost.
            "cap_pixels_per_frame": False,
            **({"videos_kwargs": {"do_resize": False}} if any(keeps_sizes) else {}),
        }
    prompts = [chat_text(processor, request) for request in requests]
    return processor(text=prompts, padding=True, return_tensors="pt", **extra)


def joined_inputs(processor: "ProcessorMixin", several: "Sequence[BatchFeature]") -> "BatchFeature":
    """Return the tensors of several batches as one batch, as `processor_inputs` would make it."""
    if len(several) == 1:
        return several[0]
    import torch
    from torch.nn.functional import pad

    widest = max(int(batch["input_ids"].shape[1]) for batch in several)
    empty = dict.fromkeys(TOKEN_TENSORS, 0) | {"input_ids": processor.tokenizer.pad_token_id}
    tensors: dict[str, Tensor] = {}
    for name in dict.fromkeys(name for batch in several for name in batch):
        parts = [batch[name] for batch in several if name in batch]
        if name in empty:
            parts = [pad(part, (widest - part.shape[1], 0), value=empty[name]) for part in parts]
        elif name == POSITIONS:
            parts = [pad(part, (widest - part.shape[2], 0)) for part in parts]
        tensors[name] = torch.cat(parts, dim=1 if name == POSITIONS else 0)
    return type(several[0])(tensors)


def with_tokens(
    inputs: "BatchFeature", tokens: "Tensor | Sequence[Sequence[int]]", mask: "Tensor | None" = None
) -> "BatchFeature":
    """Return prompts' tensors with tokens of text appended.

    Args:
        inputs: Tensors of prompts; they are changed.
        tokens: Token ids, prompts × length.
        mask: 1 for a token, 0 for padding; None: there is no padding.
    """
    import torch

    added = torch.as_tensor(tokens, device=inputs["input_ids"].device)
    added_mask = torch.ones_like(added) if mask is None else mask
    columns = {"input_ids": added, "attention_mask": added_mask}
    for name in TOKEN_TENSORS:
        if name in inputs:  # in tensors of token types, text is 0
            after = columns.get(name, torch.zeros_like(added)).to(inputs[name].dtype)
            inputs[name] = torch.cat([inputs[name], after], dim=1)
    return inputs


def length(request: ChatRequest) -> int:
    """Estimate the number of tokens of a request, to batch requests of similar length."""
    pixels = 0
    for media_index, media in enumerate(request.media):
        width, height = request.squash(media_index) or media.size
        pixels += len(frames_shown(request, media_index)) * min(width * height, MAX_PIXELS)
    earlier = sum(len(turn.text) + len(turn.response) for turn in request.earlier)
    return (len(request.text) + earlier) // CHARACTERS_A_TOKEN + pixels // PIXELS_A_TOKEN


def conversation_of(
    request: ChatRequest, clean: Callable[[str], str]
) -> Iterator[tuple[range, str, str | None]]:
    """Yield each turn of the user: indices of the media shown in it, its text, the response to it.

    The last turn is the request itself, without a response. `clean` is applied to all texts.
    """
    start = 0
    for turn in request.earlier:
        end = start + turn.media
        yield range(start, end), clean(turn.text), clean(turn.response)
        start = end
    yield range(start, len(request.media)), own_text(request, clean), None


def chat_text(processor: "ProcessorMixin", request: ChatRequest) -> str:
    """Return the prompt of a request by the checkpoint's chat template, media before text.

    A checkpoint without a template (PaliGemma) gets the media tokens and the text.

    Raises:
        UsageError: the checkpoint has no template, and the request has several turns or a system
            message.
        EndlessTemplate: the template does not end.
    """
    messages = messages_of(processor, request)
    if not template_of(processor):
        if request.system is not None or request.earlier:
            what = "system=…" if request.system is not None else "a request of several turns"
            raise UsageError(what, expected="a checkpoint with a chat template", found="none")
        tokens = {name: getattr(processor, f"{name}_token", "") for name in ("image", "video")}
        *media, question = messages[-1]["content"]
        media_tokens = "".join(tokens[part["type"]] for part in media)
        prefix = without_special_tokens(processor, request.prefix)
        return f"{media_tokens}{question['text']}{prefix}"
    text = apply_template(processor, messages, add_generation_prompt=True)
    return f"{text}{without_special_tokens(processor, request.prefix)}"


def messages_of(processor: "ProcessorMixin", request: ChatRequest) -> list[dict[str, Any]]:
    """Return the messages of a request for a chat template: media before text.

    Special tokens in texts are broken up.
    """
    clean = partial(without_special_tokens, processor)
    messages: list[dict[str, Any]] = []
    if request.system is not None:
        system = [{"type": "text", "text": clean(request.system)}]
        messages.append({"role": "system", "content": system})
    for indices, question, response in conversation_of(request, clean):
        media = [
            {"type": "image" if len(frames_shown(request, index)) == 1 else "video"}
            for index in indices
        ]
        messages.append({"role": "user", "content": [*media, {"type": "text", "text": question}]})
        if response is not None:
            content = [{"type": "text", "text": response}]
            messages.append({"role": "assistant", "content": content})
    return messages


def apply_template(
    processor: "ProcessorMixin",
    messages: Sequence[Mapping[str, object]],
    *,
    add_generation_prompt: bool,
) -> str:
    """Return the text of messages by the chat template; EndlessTemplate if it does not end."""
    with _time_limit(RENDER_SECONDS):
        text: str = processor.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            **getattr(processor, "chat_template_kwargs", {}),
        )
    return text


def template_of(processor: "ProcessorMixin") -> str | Mapping[str, str] | None:
    """Return the chat template, or several by name; None or empty if there is none."""
    template: str | Mapping[str, str] | None = getattr(processor, "chat_template", None)
    return template or processor.tokenizer.chat_template


def opened_reasoning(processor: "ProcessorMixin") -> str:
    """Return `<think>` and the white space after it if the chat template ends with them, else "".

    Such a template opens the reasoning itself, and the network continues it.
    """
    try:
        text = chat_text(processor, ChatRequest(key="", text="?"))
    except EndlessTemplate:
        raise
    except Exception:  # noqa: BLE001 - a template may require an image
        return ""
    opening = re.search(r"<think>\s*\Z", text)
    return opening[0] if opening else ""


class EndlessTemplate(ModelError):
    """A chat template does not end, or produces too much text."""


def check_template(processor: "ProcessorMixin") -> None:
    """Raise EndlessTemplate if the chat template does not end for a short question.

    It is first tried in another process, for a question with and without an image. Other faults of
    a template show when a request is made.
    """
    templates = template_of(processor)
    for template in templates.values() if isinstance(templates, Mapping) else [templates or ""]:
        question = {"type": "text", "text": "?"}
        conversations = (
            [{"role": "user", "content": "?"}],
            [{"role": "user", "content": [{"type": "image"}, question]}],
        )
        if template and not is_bounded(template, conversations, seconds=RENDER_SECONDS):
            raise _endless(f"a prompt within {RENDER_SECONDS:g} s and {MAX_MEMORY_BYTES >> 20} MiB")
    opened_reasoning(processor)


def _endless(expected: str) -> EndlessTemplate:
    """Return the error for a template that does not give what is `expected`."""
    return EndlessTemplate(
        "the checkpoint's chat template",
        expected=expected,
        found="a template that does not end (an endless loop, or too much text)",
        fix="See its chat_template.jinja, or tokenizer_config.json.",
    )


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Stop Python code of a `with` block in this thread, such as a template's loops, after a time.

    Raises:
        EndlessTemplate: the time is over.
    """
    deadline, before = monotonic() + seconds, sys.gettrace()

    def trace(frame: FrameType, event: str, argument: object) -> "TraceFunction":
        if monotonic() > deadline:
            sys.settrace(before)
            raise _endless(f"a prompt within {seconds:g} s")
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def own_text(request: ChatRequest, clean: Callable[[str], str]) -> str:
    """Return a request's text with `clean` applied to all of it but its marks.

    Marks are special tokens that the prompt's wording contains, and which have to stay.
    """
    if not request.marks:
        return clean(request.text)
    # The group keeps the marks in the result, at odd indices.
    parts = re.split(f"({'|'.join(map(re.escape, request.marks))})", request.text)
    return "".join(part if index % 2 else clean(part) for index, part in enumerate(parts))


def without_special_tokens(processor: "ProcessorMixin", text: str) -> str:
    """Return a text with a blank in each special token: it cannot end its turn or add an image."""
    for token in processor.tokenizer.all_special_tokens:
        text = text.replace(token, f"{token[:1]} {token[1:]}")
    return text

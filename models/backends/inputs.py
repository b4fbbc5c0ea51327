"""Requests as a processor takes them: tensors of a batch, and texts by the chat template."""

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
    clip_times,
    frames_shown,
    has_grids,
    keeps_clip_sizes,
    squashed,
)
from harness.models.backends.template_trial import MEMORY, is_bounded

if TYPE_CHECKING:
    from _typeshed import TraceFunction
    from torch import Tensor
    from transformers import BatchFeature, ProcessorMixin

RENDERING = 10.0  # seconds that a chat template has for one prompt
CHARACTERS_A_TOKEN, PIXELS_A_TOKEN = 4, 28 * 28
MAX_PIXELS = 12_845_056  # of an image in Qwen2.5-VL's checkpoints
A_TOKEN = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids")
"""Tensors of a batch with a column a token; the others have one row after the other."""
POSITIONS = "position_ids"
"""Key of the positions by `continuous_batching.token_positions` beside the tensors of a batch."""


def processor_inputs(
    processor: "ProcessorMixin", requests: Sequence[ChatRequest]
) -> "BatchFeature":
    """Tensors of a batch: tokens padded on the left, patches of all images and clips."""
    if any(request.written for request in requests):
        inputs = [
            with_tokens(
                processor_inputs(processor, [replace(request, written=())]), [request.written]
            )
            for request in requests
        ]
        return joined_inputs(processor, inputs)
    kept = [keeps_clip_sizes(processor, request) for request in requests]
    if any(kept) and not all(kept):  # a processor resizes all clips of a call or none
        return joined_inputs(
            processor, [processor_inputs(processor, [request]) for request in requests]
        )
    images: list[list[Frame]] = []
    clips: list[Frame] = []
    times: list[dict[str, object]] = []
    for request in requests:
        images.append([])
        for place, media in enumerate(request.media):
            indices = frames_shown(request, place)
            frames = [squashed(media.frame(index), request.squash(place)) for index in indices]
            if len(frames) == 1:
                images[-1] += frames
            else:
                check_clip_limits(processor)
                clips.append(np.stack(frames))
                times.append(clip_times(media, indices))
    extra: dict[str, object] = {}
    if any(images):
        extra["images"] = list(chain(*images)) if has_grids(processor) else images
    if clips:
        extra |= {
            "videos": clips,
            "video_metadata": times,
            "do_sample_frames": False,
            # Its default is announced to change; what a clip costs is bounded by its frames.
            "cap_pixels_per_frame": False,
            **({"videos_kwargs": {"do_resize": False}} if any(kept) else {}),
        }
    texts = [chat_text(processor, request) for request in requests]
    return processor(text=texts, padding=True, return_tensors="pt", **extra)


def joined_inputs(processor: "ProcessorMixin", several: "Sequence[BatchFeature]") -> "BatchFeature":
    """Tensors of batches, as `processor_inputs` makes them of all their requests together."""
    if len(several) == 1:
        return several[0]
    import torch
    from torch.nn.functional import pad

    widest = max(int(batch["input_ids"].shape[1]) for batch in several)
    empty = dict.fromkeys(A_TOKEN, 0) | {"input_ids": processor.tokenizer.pad_token_id}
    whole: dict[str, Tensor] = {}
    for name in dict.fromkeys(name for batch in several for name in batch):
        parts = [batch[name] for batch in several if name in batch]
        if name in empty:
            parts = [pad(part, (widest - part.shape[1], 0), value=empty[name]) for part in parts]
        elif name == POSITIONS:
            parts = [pad(part, (widest - part.shape[2], 0)) for part in parts]
        whole[name] = torch.cat(parts, dim=1 if name == POSITIONS else 0)
    return type(several[0])(whole)


def with_tokens(
    inputs: "BatchFeature", tokens: "Tensor | Sequence[Sequence[int]]", mask: "Tensor | None" = None
) -> "BatchFeature":
    """Return prompts' tensors with tokens of text after them (rows × length), `mask` 1 for each."""
    import torch

    more = torch.as_tensor(tokens, device=inputs["input_ids"].device)
    seen = torch.ones_like(more) if mask is None else mask
    beside = {"input_ids": more, "attention_mask": seen}
    for name in A_TOKEN:
        if name in inputs:  # of a kind of tokens, text is 0
            after = beside.get(name, torch.zeros_like(more)).to(inputs[name].dtype)
            inputs[name] = torch.cat([inputs[name], after], dim=1)
    return inputs


def length(request: ChatRequest) -> int:
    """About how many tokens a request has, for putting alike ones together; exact for none."""
    pixels = 0
    for place, media in enumerate(request.media):
        width, height = request.squash(place) or media.size
        pixels += len(frames_shown(request, place)) * min(width * height, MAX_PIXELS)
    earlier = sum(len(turn.text) + len(turn.response) for turn in request.earlier)
    return (len(request.text) + earlier) // CHARACTERS_A_TOKEN + pixels // PIXELS_A_TOKEN


def conversation_of(
    request: ChatRequest, clean: Callable[[str], str]
) -> Iterator[tuple[range, str, str | None]]:
    """Yield each turn of the user: the places of the media shown in it, its text, the response.

    The last one is the request's own, without a response. Texts were given to `clean`.
    """
    start = 0
    for turn in request.earlier:
        end = start + turn.media
        yield range(start, end), clean(turn.text), clean(turn.response)
        start = end
    yield range(start, len(request.media)), own_text(request, clean), None


def chat_text(processor: "ProcessorMixin", request: ChatRequest) -> str:
    """The request in the checkpoint's chat template, media before text.

    A checkpoint without a template (PaliGemma) is given the marks of the media and the text alone.
    """
    messages = messages_of(processor, request)
    if not template_of(processor):
        if request.system is not None or request.earlier:
            what = "system=…" if request.system is not None else "a request of several turns"
            raise UsageError(what, expected="a checkpoint with a chat template", found="none")
        marks = {kind: getattr(processor, f"{kind}_token", "") for kind in ("image", "video")}
        *media, asked = messages[-1]["content"]
        shown = "".join(marks[part["type"]] for part in media)
        return f"{shown}{asked['text']}{without_special_tokens(processor, request.prefix)}"
    text = apply_template(processor, messages, add_generation_prompt=True)
    return f"{text}{without_special_tokens(processor, request.prefix)}"


def messages_of(processor: "ProcessorMixin", request: ChatRequest) -> list[dict[str, Any]]:
    """The request as a chat template takes it: media before text, no special tokens in text."""
    clean = partial(without_special_tokens, processor)
    messages: list[dict[str, Any]] = []
    if request.system is not None:
        system = [{"type": "text", "text": clean(request.system)}]
        messages.append({"role": "system", "content": system})
    for places, asked, response in conversation_of(request, clean):
        media = [
            {"type": "image" if len(frames_shown(request, place)) == 1 else "video"}
            for place in places
        ]
        messages.append({"role": "user", "content": [*media, {"type": "text", "text": asked}]})
        if response is not None:
            said = [{"type": "text", "text": response}]
            messages.append({"role": "assistant", "content": said})
    return messages


def apply_template(
    processor: "ProcessorMixin",
    messages: Sequence[Mapping[str, object]],
    *,
    add_generation_prompt: bool,
) -> str:
    """The text of messages by the chat template; raise EndlessTemplate if it does not end."""
    with _ending(RENDERING):
        text: str = processor.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            **getattr(processor, "chat_template_kwargs", {}),
        )
    return text


def template_of(processor: "ProcessorMixin") -> str | Mapping[str, str] | None:
    """The chat template, or several by name; None, or empty, if there is none."""
    template: str | Mapping[str, str] | None = getattr(processor, "chat_template", None)
    return template or processor.tokenizer.chat_template


def opened_reasoning(processor: "ProcessorMixin") -> str:
    """Return the `<think>`, with the blanks after it, by which a chat template begins responses.

    Empty where it leaves that to the network.
    """
    try:
        text = chat_text(processor, ChatRequest(key="", text="?"))
    except EndlessTemplate:
        raise
    except Exception:  # noqa: BLE001 - a template may ask for an image
        return ""
    opening = re.search(r"<think>\s*\Z", text)
    return opening[0] if opening else ""


class EndlessTemplate(ModelError):
    """A chat template does not come to an end."""


def check_template(processor: "ProcessorMixin") -> None:
    """Raise EndlessTemplate if the chat template does not come to an end, for a short question.

    It is tried in a process of its own first, for a question alone and beside an image. Whatever
    else is wrong with it shows when the network is asked.
    """
    templates = template_of(processor)
    for template in templates.values() if isinstance(templates, Mapping) else [templates or ""]:
        question = {"type": "text", "text": "?"}
        asked = (
            [{"role": "user", "content": "?"}],
            [{"role": "user", "content": [{"type": "image"}, question]}],
        )
        if template and not is_bounded(template, asked, seconds=RENDERING):
            raise _endless(f"a prompt within {RENDERING:g} s and {MEMORY >> 20} MiB")
    opened_reasoning(processor)


def _endless(expected: str) -> EndlessTemplate:
    return EndlessTemplate(
        "the checkpoint's chat template",
        expected=expected,
        found="a template that does not end: it may loop or write too much",
        fix="See its chat_template.jinja, or tokenizer_config.json.",
    )


@contextmanager
def _ending(seconds: float) -> Iterator[None]:
    """Stop what runs in this thread's Python code after so many seconds, as a template's loops do.

    Raises:
        EndlessTemplate: the time is over.
    """
    until, before = monotonic() + seconds, sys.gettrace()

    def trace(frame: FrameType, event: str, argument: object) -> "TraceFunction":
        if monotonic() > until:
            sys.settrace(before)
            raise _endless(f"a prompt within {seconds:g} s")
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def own_text(request: ChatRequest, clean: Callable[[str], str]) -> str:
    """Return a request's text, in which `clean` was given all that is between its marks."""
    if not request.marks:
        return clean(request.text)
    parts = re.split(f"({'|'.join(map(re.escape, request.marks))})", request.text)
    return "".join(part if place % 2 else clean(part) for place, part in enumerate(parts))


def without_special_tokens(processor: "ProcessorMixin", text: str) -> str:
    """Text in which no special token is left: a question cannot end its turn or add an image."""
    for token in processor.tokenizer.all_special_tokens:
        text = text.replace(token, f"{token[:1]} {token[1:]}")
    return text

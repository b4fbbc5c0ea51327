"""List the faults of servers and backends that call a network, as changes of a request.

`search` applies them to the reference network's request: a change after which the reference agrees
with the other way of calling it is the cause of the difference. Each `Change` returns None if it
does not apply.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import mul
from types import MappingProxyType

import numpy as np
from PIL import Image

from harness.chat import ChatRequest
from harness.image_file import TRANSPARENT
from harness.media import Frame, Media, encoded_frame, pixels
from harness.observation import Variation

Change = Callable[[Variation], Variation | None]
"""Returns the changed request; None: the change does not apply to it."""
SQUARES = (224, 336, 384, 448, 560, 672)
"""Sides in pixels of the squares that processors of fixed resolution squash images to."""
QUALITIES = (50, 60, 70, 75, 80, 85, 90, 95)  # of JPEG
ASSUMED_RATES = (1.0, 2.0, 24.0, 25.0, 30.0)
"""Frames a second that processors assume for a clip without times."""
RATE_FACTORS = (0.25, 0.5, 2.0, 4.0)  # factors of the true frame rate
USUAL_SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
)


def shown_frames(request: ChatRequest, index: int) -> tuple[int, ...]:
    """Return the frames of a medium that a request shows."""
    if request.frames:
        return request.frames[index]
    return tuple(range(len(request.media[index])))


def _with_media(variation: Variation, media: Sequence[Media]) -> Variation:
    """Return a request with its media replaced by as many others of the same lengths."""
    request = variation.request
    for index, (medium, original) in enumerate(zip(media, request.media, strict=True)):
        size = request.squash(index)
        if size is None or medium.size in (size, original.size):
            continue
        request = replace(request, resize=None, resize_others=None)  # it would undo the change
    return replace(variation, request=replace(request, media=tuple(media)))


def _with_pixels(
    request: ChatRequest,
    medium_index: int,
    name: str,
    *,
    change: Callable[[Frame], Frame] = np.asarray,
    times: Sequence[float] | None = None,
) -> Media:
    """Return a medium of a request with its shown frames changed, or with other times in seconds.

    Frames that are not shown are black. `name` distinguishes the medium's id.
    """
    medium, shown_indices = request.media[medium_index], shown_frames(request, medium_index)
    frames = {
        index: change(_squashed(medium.frame(index), request.squash(medium_index)))
        for index in shown_indices
    }
    black = np.zeros_like(frames[shown_indices[0]])
    return pixels(
        [frames.get(index, black) for index in range(len(medium))],
        times=medium.times() if times is None else times,
        is_video=medium.is_video,
        id=f"{medium.id} {name}",
    )


def _squashed(frame: Frame, size: tuple[int, int] | None) -> Frame:
    """Resize a frame to (width, height) as backends do; None: leave it."""
    if size is None or size == frame.shape[1::-1]:
        return frame
    return np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BILINEAR))


def _pixels(change: Callable[[Frame], Frame], name: str) -> Change:
    """Return a change of the pixels of all shown frames."""

    def changed(variation: Variation) -> Variation | None:
        request = variation.request
        indices = range(len(request.media))
        media = [_with_pixels(request, index, name, change=change) for index in indices]
        return _with_media(variation, media) if media else None

    return changed


def jpeg(frame: Frame, quality: int) -> Frame:
    """Return an image after compression as JPEG."""
    file = io.BytesIO()
    Image.fromarray(frame).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file).convert("RGB"))


def _square(frame: Frame, side: int) -> Frame:
    return np.asarray(Image.fromarray(frame).resize((side, side), Image.Resampling.BICUBIC))


def _scaled(frame: Frame, factor: float) -> Frame:
    size = [max(1, round(length * factor)) for length in frame.shape[1::-1]]
    return np.asarray(Image.fromarray(frame).resize(tuple(size), Image.Resampling.BICUBIC))


def _without_alpha(variation: Variation) -> Variation | None:
    """Show the colours beneath transparent pixels."""
    media = list(variation.request.media)
    for index, medium in enumerate(media):
        if TRANSPARENT in medium.conversions and (data := encoded_frame(medium, 0)) is not None:
            bare = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
            media[index] = pixels([bare], times=[0.0], is_video=False, id=f"{medium.id} bare")
    return _with_media(variation, media) if media != list(variation.request.media) else None


def _clock(rate: Callable[[float], float], name: str) -> Change:
    """Return a change of clips to the frame rate `rate(true frame rate)`, in frames a second."""

    def changed(variation: Variation) -> Variation | None:
        request, media = variation.request, list(variation.request.media)
        for medium_index, medium in enumerate(media):
            if len(shown_frames(request, medium_index)) > 1:
                times = medium.times()
                # Frames without distinct times count as one a second.
                true_rate = (len(times) - 1) / ((times[-1] - times[0]) or len(times) - 1)
                clock = [index / rate(true_rate) for index in range(len(times))]
                media[medium_index] = _with_pixels(request, medium_index, name, times=clock)
        return _with_media(variation, media) if media != list(request.media) else None

    return changed


def _constant(rate: float) -> Callable[[float], float]:
    return lambda _: rate


def _selected(choose: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Change:
    """Return a change of each clip's shown frames; `choose` maps their indices to others."""

    def changed(variation: Variation) -> Variation | None:
        request = variation.request
        original = tuple(shown_frames(request, index) for index in range(len(request.media)))
        frames = tuple(choose(indices) if len(indices) > 1 else indices for indices in original)
        if frames == original or not all(frames):
            return None
        return replace(variation, request=replace(request, frames=frames))

    return changed


def _media(choose: Callable[[list[int]], list[int]]) -> Change:
    """Return a change of the media's order or choice; `choose` maps their indices to others."""

    def changed(variation: Variation) -> Variation | None:
        request = variation.request
        order = list(range(len(request.media)))
        chosen = choose(order)
        if chosen == order or request.earlier:
            return None
        frames = tuple(shown_frames(request, index) for index in chosen)
        media = tuple(request.media[index] for index in chosen)
        return replace(variation, request=replace(request, media=media, frames=frames))

    return changed


def _frames_as_images(variation: Variation) -> Variation | None:
    """Show the frames of clips as images without times."""
    request = variation.request
    media = [
        pixels([medium.frame(index)], times=[0.0], is_video=False, id=f"{medium.id} {index}")
        for medium_index, medium in enumerate(request.media)
        for index in shown_frames(request, medium_index)
    ]
    if len(media) == len(request.media):
        return None
    return replace(variation, request=replace(request, media=tuple(media), frames=()))


def _system(text: str | None) -> Change:
    """Return the change that sets the system prompt to `text`; None: that removes it."""

    def changed(variation: Variation) -> Variation | None:
        if variation.request.system == text:
            return None
        return replace(variation, request=replace(variation.request, system=text))

    return changed


def _template(**variables: object) -> Change:
    """Return a change of the chat template's variables."""
    return lambda variation: replace(variation, template={**variation.template, **variables})


def suspects() -> Mapping[str, Change]:
    """Return the changes by the fault of the other side that each would show."""
    changes: dict[str, Change] = {
        "the images are not shown": _media(lambda order: []),
        "only the first image is shown": _media(lambda order: order[:1]),
        "the last image is not shown": _media(lambda order: order[:-1] or order),
        "the images stand in reversed order": _media(lambda order: order[::-1]),
        "the frames stand in reversed order": _selected(lambda shown: shown[::-1]),
        "the first frame is missing": _selected(lambda shown: shown[1:]),
        "the last frame is missing": _selected(lambda shown: shown[:-1]),
        "every second frame is missing": _selected(lambda shown: shown[::2]),
        "clips are shown as images without frame times": _frames_as_images,
        "colours are BGR in place of RGB": _pixels(
            lambda frame: np.ascontiguousarray(frame[:, :, ::-1]), "BGR"
        ),
        "colours beneath transparency are shown": _without_alpha,
        "there is no system prompt": _system(None),
    }
    for text in USUAL_SYSTEM_PROMPTS:
        changes[f"the system prompt is {text!r}"] = _system(text)
    for side in SQUARES:
        fault = f"images are resized to {side} × {side}"
        changes[fault] = _pixels(partial(_square, side=side), fault)
    for factor in (0.5, 2.0):
        fault = f"images are resized by {factor:g}"
        changes[fault] = _pixels(partial(_scaled, factor=factor), fault)
    for quality in QUALITIES:
        fault = f"images are recompressed as JPEG (quality {quality})"
        changes[fault] = _pixels(partial(jpeg, quality=quality), fault)
    for rate in ASSUMED_RATES:
        fault = f"frame times are missing: a clip counts as {rate:g} frames a second"
        changes[fault] = _clock(_constant(rate), fault)
    for factor in RATE_FACTORS:
        fault = f"frame times are others: clips have {factor:g} times the frames a second"
        changes[fault] = _clock(partial(mul, factor), fault)
    for thinking in (None, True, False):
        state = {True: "on", False: "off", None: "not set"}[thinking]
        changes[f"the switch enable_thinking is {state}"] = _template(enable_thinking=thinking)
    changes["the first token of the prompt stands twice (a doubled BOS)"] = lambda variation: (
        replace(variation, doubled=True)
    )
    return MappingProxyType(changes)

"""Changes that a way of calling a network may make to a request, tried one after another.

A change that makes the examined network say what the other one says is the cause of the difference.
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
"""Returns the request as it is changed; None: the change leaves it as it is."""
SQUARES = (224, 336, 384, 448, 560, 672)
"""Sides that networks without a resolution of their own squash images to."""
QUALITIES = (50, 60, 70, 75, 80, 85, 90, 95)
CLOCKS = (1.0, 2.0, 24.0, 25.0, 30.0)
"""Frames a second that processors take a clip without times to have."""
SCALES = (0.25, 0.5, 2.0, 4.0)
HELPFUL = "You are a helpful assistant."
SYSTEM_OF_OTHERS = (HELPFUL, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")


def shown_frames(request: ChatRequest, place: int) -> tuple[int, ...]:
    """Return the frames of a medium that a request shows."""
    if request.frames:
        return request.frames[place]
    return tuple(range(len(request.media[place])))


def _with_media(variation: Variation, media: Sequence[Media]) -> Variation:
    """Return a request with other media, in the place of its own ones and as long."""
    request = variation.request
    for place, (medium, own) in enumerate(zip(media, request.media, strict=True)):
        size = request.squash(place)
        if size is None or medium.size in (size, own.size):
            continue
        request = replace(request, resize=None, resize_others=None)  # it would undo the change
    return replace(variation, request=replace(request, media=tuple(media)))


def _remade(
    request: ChatRequest,
    place: int,
    name: str,
    *,
    change: Callable[[Frame], Frame] = np.asarray,
    times: Sequence[float] | None = None,
) -> Media:
    """Return a medium as it is handed over, with other pixels or times.

    Frames that are not shown are black.
    """
    medium, shown = request.media[place], shown_frames(request, place)
    frames = {
        index: change(_squashed(medium.frame(index), request.squash(place))) for index in shown
    }
    black = np.zeros_like(frames[shown[0]])
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
    """Change the pixels of all frames that are shown."""

    def changed(variation: Variation) -> Variation | None:
        request = variation.request
        places = range(len(request.media))
        media = [_remade(request, place, name, change=change) for place in places]
        return _with_media(variation, media) if media else None

    return changed


def jpeg(frame: Frame, quality: int) -> Frame:
    """Return an image as JPEG of a quality leaves it."""
    file = io.BytesIO()
    Image.fromarray(frame).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file).convert("RGB"))


def _square(frame: Frame, side: int) -> Frame:
    return np.asarray(Image.fromarray(frame).resize((side, side), Image.Resampling.BICUBIC))


def _scaled(frame: Frame, factor: float) -> Frame:
    size = [max(1, round(length * factor)) for length in frame.shape[1::-1]]
    return np.asarray(Image.fromarray(frame).resize(tuple(size), Image.Resampling.BICUBIC))


def _unpainted(variation: Variation) -> Variation | None:
    """Show the colours beneath what is transparent."""
    media = list(variation.request.media)
    for place, medium in enumerate(media):
        if TRANSPARENT in medium.conversions and (data := encoded_frame(medium, 0)) is not None:
            bare = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
            media[place] = pixels([bare], times=[0.0], is_video=False, id=f"{medium.id} bare")
    return _with_media(variation, media) if media != list(variation.request.media) else None


def _clock(rate: Callable[[float], float], name: str) -> Change:
    """Let clips have another number of frames a second."""

    def changed(variation: Variation) -> Variation | None:
        request, media = variation.request, list(variation.request.media)
        for place, medium in enumerate(media):
            if len(shown_frames(request, place)) > 1:
                times = medium.times()
                own = (len(times) - 1) / ((times[-1] - times[0]) or len(times) - 1)
                clock = [index / rate(own) for index in range(len(times))]
                media[place] = _remade(request, place, name, times=clock)
        return _with_media(variation, media) if media != list(request.media) else None

    return changed


def _constant(rate: float) -> Callable[[float], float]:
    return lambda _: rate


def _selected(choose: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Change:
    """Show other frames of each clip."""

    def changed(variation: Variation) -> Variation | None:
        request = variation.request
        own = tuple(shown_frames(request, place) for place in range(len(request.media)))
        frames = tuple(choose(shown) if len(shown) > 1 else shown for shown in own)
        if frames == own or not all(frames):
            return None
        return replace(variation, request=replace(request, frames=frames))

    return changed


def _media(choose: Callable[[list[int]], list[int]]) -> Change:
    """Show the media in another order, or not all of them."""

    def changed(variation: Variation) -> Variation | None:
        request = variation.request
        order = list(range(len(request.media)))
        chosen = choose(order)
        if chosen == order or request.earlier:
            return None
        shown = tuple(shown_frames(request, place) for place in chosen)
        media = tuple(request.media[place] for place in chosen)
        return replace(variation, request=replace(request, media=media, frames=shown))

    return changed


def _apart(variation: Variation) -> Variation | None:
    """Show the frames of clips as images without times."""
    request = variation.request
    media = [
        pixels([medium.frame(index)], times=[0.0], is_video=False, id=f"{medium.id} {index}")
        for place, medium in enumerate(request.media)
        for index in shown_frames(request, place)
    ]
    if len(media) == len(request.media):
        return None
    return replace(variation, request=replace(request, media=tuple(media), frames=()))


def _system(text: str | None) -> Change:
    def changed(variation: Variation) -> Variation | None:
        if variation.request.system == text:
            return None
        return replace(variation, request=replace(variation.request, system=text))

    return changed


def _template(**variables: object) -> Change:
    return lambda variation: replace(variation, template={**variation.template, **variables})


def suspects() -> Mapping[str, Change]:
    """Return the changes by what they mean for the other side, in words."""
    changes: dict[str, Change] = {
        "the images are not shown": _media(lambda order: []),
        "only the first image is shown": _media(lambda order: order[:1]),
        "the last image is not shown": _media(lambda order: order[:-1] or order),
        "the images stand in reversed order": _media(lambda order: order[::-1]),
        "the frames stand in reversed order": _selected(lambda shown: shown[::-1]),
        "the first frame is missing": _selected(lambda shown: shown[1:]),
        "the last frame is missing": _selected(lambda shown: shown[:-1]),
        "every second frame is missing": _selected(lambda shown: shown[::2]),
        "clips are shown as images without frame times": _apart,
        "colours are BGR in place of RGB": _pixels(
            lambda frame: np.ascontiguousarray(frame[:, :, ::-1]), "BGR"
        ),
        "colours beneath transparency are shown": _unpainted,
        "there is no system prompt": _system(None),
    }
    for text in SYSTEM_OF_OTHERS:
        changes[f"the system prompt is {text!r}"] = _system(text)
    for side in SQUARES:
        words = f"images are resized to {side} × {side}"
        changes[words] = _pixels(partial(_square, side=side), words)
    for factor in (0.5, 2.0):
        words = f"images are resized by {factor:g}"
        changes[words] = _pixels(partial(_scaled, factor=factor), words)
    for quality in QUALITIES:
        words = f"images are recompressed as JPEG (quality {quality})"
        changes[words] = _pixels(partial(jpeg, quality=quality), words)
    for rate in CLOCKS:
        words = f"frame times are missing: a clip counts as {rate:g} frames a second"
        changes[words] = _clock(_constant(rate), words)
    for factor in SCALES:
        words = f"frame times are others: clips have {factor:g} times the frames a second"
        changes[words] = _clock(partial(mul, factor), words)
    for thinking in (None, True, False):
        state = {True: "on", False: "off", None: "not set"}[thinking]
        changes[f"the switch enable_thinking is {state}"] = _template(enable_thinking=thinking)
    changes["the first token of the prompt stands twice (a doubled BOS)"] = lambda variation: (
        replace(variation, doubled=True)
    )
    return MappingProxyType(changes)

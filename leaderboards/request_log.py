"""Describe the recorded requests to a VLM as texts, for `harness explain`."""

from collections.abc import Sequence
from itertools import groupby

from harness.types import Call, Query, Shown


def request_log(query: Query | None, calls: Sequence[Call]) -> dict[str, str]:
    """Return the texts and shown frames of requests, under labels such as `prompt 1`, `shown 2`.

    Consecutive calls with equal requests are listed once, under `prompt 1 to 3`.

    Args:
        query: The sample's query, for the sizes of its media; None if the benchmark is not there.
        calls: Recorded calls of the VLM, in their order.
    """
    log: dict[str, str] = {}
    first = 1
    for request, group in groupby(calls, lambda call: call.request):
        last = first + len(list(group)) - 1
        number = str(first) if last == first else f"{first} to {last}"
        first = last + 1
        if request.system is not None:
            log[f"system {number}"] = request.system
        for turn, exchange in enumerate(request.earlier, start=1):
            log[f"turn {turn} before {number}"] = f"{exchange.text}\n{exchange.response}"
        log[f"prompt {number}"] = request.text
        if request.prefix:
            log[f"prefix {number}"] = request.prefix
        if request.shown:
            log[f"shown {number}"] = "; ".join(_shown_text(query, view) for view in request.shown)
    return log


def _shown_text(query: Query | None, view: Shown) -> str:
    """Describe the frames of one medium in a request: indices, times, and sizes in pixels.

    `view.resize` is the size that the harness resized frames to, None for their own; `view.canvas`
    the size that the network's processor then made of them, None if it is not recorded.
    """
    plural = "s" if len(view.frames) > 1 else ""
    text = f"frame{plural} {', '.join(map(str, view.frames))}"
    if view.times:
        text += f" ({', '.join(f'{time:g}' for time in view.times)} s)"
    if isinstance(view.medium, str):
        text += f" of another medium, {view.medium}"
    elif query is not None and len(query.media) > 1:
        text += f" of medium {view.medium + 1}"
    original = query.media[view.medium].size if query and isinstance(view.medium, int) else None
    sent = view.resize or original
    if view.canvas is not None:
        if sent is None or sent == view.canvas:
            return f"{text} at {_pixels(view.canvas)}"
        return f"{text} at {_pixels(view.canvas)}, which the processor makes of {_pixels(sent)}"
    if sent is None:
        return f"{text}, at a size that is not known"
    rule = "" if view.resize else ", before the processor's own rule"
    return f"{text} at {_pixels(sent)}{rule}"


def _pixels(size: tuple[int, int]) -> str:
    return f"{size[0]} × {size[1]}"

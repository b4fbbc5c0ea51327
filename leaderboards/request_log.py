"""Calls of networks in a record, as text and as images."""

from collections.abc import Sequence
from itertools import groupby

from harness.types import Call, Query, Shown


def request_log(query: Query | None, calls: Sequence[Call]) -> dict[str, str]:
    """Return texts and frames of requests by the numbers of their calls; equal neighbours once.

    Args:
        query: The sample's, for the sizes of its media; None where its benchmark is gone.
        calls: In the order of the record.
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
            log[f"shown {number}"] = "; ".join(_shown_text(query, shown) for shown in request.shown)
    return log


def _shown_text(query: Query | None, shown: Shown) -> str:
    several = len(shown.frames) > 1
    text = f"frame{'s' if several else ''} {', '.join(map(str, shown.frames))}"
    if shown.times:
        text += f" ({', '.join(f'{time:g}' for time in shown.times)} s)"
    if isinstance(shown.medium, str):
        text += f" of another medium, {shown.medium}"
    elif query is not None and len(query.media) > 1:
        text += f" of medium {shown.medium + 1}"
    own = query.media[shown.medium].size if query and isinstance(shown.medium, int) else None
    before = shown.resize or own
    if shown.canvas is None:
        return (
            f"{text}, at a size that is not known"
            if before is None
            else (
                f"{text} at {_pixels(before)}"
                + ("" if shown.resize else ", before the processor's own rule")
            )
        )
    resized = (
        ""
        if before in (None, shown.canvas)
        else (f", which the processor makes of {_pixels(before)}")
    )
    return f"{text} at {_pixels(shown.canvas)}{resized}"


def _pixels(size: tuple[int, int]) -> str:
    return f"{size[0]} × {size[1]}"

"""Write and parse V-STaR's text form of boxes: JSON `{"3": [xmin, ymin, xmax, ymax], …}` by second.

Boxes are in pixels. `boxes_in` reads responses as the official demo does, quirks included.
"""

import json
import re
from collections.abc import Mapping, Sequence

from harness.errors import ParseError
from harness.responses import nesting_depth
from harness.types import Box

FENCED_JSON = re.compile(r"```json\s*\n(\[.*?\]|\{.*?\})\s*\n```", re.DOTALL)
"""A list or an object between the lines "```json" and "```"."""
MAX_DEPTH = 64  # levels of nested JSON
MAX_CHARACTERS = 20_000
"""Characters of a response that are read: the search for fences takes quadratic time."""


def boxes_in(response: str) -> Mapping[str, object]:
    r"""Return the boxes in a response's JSON, by the text of their second; empty if there are none.

    The parser equals `extract_bounding_boxes` in `inference_demo.py` (V-STaR, commit 1894682),
    except that lists without seconds give no boxes; the official scorer finds none in them either.

    >>> boxes_in('In second 3: ```json\n{"3": [1, 2, 3, 4]}\n```')
    {'3': [1, 2, 3, 4]}
    >>> boxes_in("{'3.0': [1, 2, 3, 4]}"), boxes_in("nowhere")
    ({'3.0': [1, 2, 3, 4]}, {})
    """
    source = _json_in(response[:MAX_CHARACTERS])
    if source is None:
        return {}
    try:
        return _by_second(_loads(source))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        pass
    try:
        value = _loads(_close_brackets(source))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _json_in(response: str) -> str | None:
    """Return the fenced JSON, or else the text from the first bracket to the last matching one.

    Single quotes become double quotes. None: there is no bracket.
    """
    fence = FENCED_JSON.search(response) if "```json" in response else None
    if fence:
        return fence[1].strip().replace("'", '"')
    starts = [(start, pair) for pair in ("[]", "{}") if (start := response.find(pair[0])) >= 0]
    for first, pair in sorted(starts):
        end = response.rfind(pair[1])
        if end > first:
            return response[first : end + 1].replace("'", '"')
    return None


def _loads(text: str) -> object:
    """Parse JSON of at most MAX_DEPTH levels; ValueError for other text."""
    if nesting_depth(text) > MAX_DEPTH:
        raise ValueError("too many levels")
    return json.loads(text)


def _by_second(value: object) -> Mapping[str, object]:
    """Return {second: box} of such an object, of a list of them, or of `[[second, box], …]`."""
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return {key: boxes for item in value for key, boxes in item.items()}
    if isinstance(value, list):
        return {str(item[0]): item[1] for item in value}
    return value if isinstance(value, dict) else {}


def _close_brackets(text: str) -> str:
    """Return the text with missing brackets added at its start or end: square ones, then braces."""
    for left, right in ("[]", "{}"):
        lacking = text.count(left) - text.count(right)
        text = text + right * lacking if lacking > 0 else left * -lacking + text
    return text


def boxes_response(boxes: Sequence[tuple[float, Box]]) -> str:
    """Return the official text form of boxes with their seconds."""
    return json.dumps({str(time): list(box) for time, box in boxes})


def from_track(track: Sequence[Box | None]) -> Mapping[str, list[float]]:
    """Return the boxes of a track with one frame per second, by the text of their second."""
    return {str(second): list(box) for second, box in enumerate(track) if box is not None}


def from_boxes(boxes: Sequence[Box], frames: int) -> Mapping[str, list[float]]:
    """Return a list of one box per frame, by the text of their second; see `from_track`.

    Raises:
        ParseError: the number of boxes is not `frames`.
    """
    if len(boxes) != frames:
        raise ParseError(
            '"boxes"',
            expected=f"{frames} of them, one a second of the video",
            found=f"{len(boxes)}",
            fix='With where=text an "answer" may name seconds.',
        )
    return from_track(boxes)

"""Boxes by second, as text: the form of official responses, and their parser."""

import json
import re
from collections.abc import Mapping, Sequence

from harness.errors import ParseError
from harness.responses import nesting_depth
from harness.types import Box

FENCED = re.compile(r"```json\s*\n(\[.*?\]|\{.*?\})\s*\n```", re.DOTALL)
MAX_DEPTH = 64
MAX_RESPONSE = 20_000
"""Characters that are looked at: a search for fences takes time with its square."""


def boxes_in(response: str) -> Mapping[str, object]:
    r"""Boxes by the text of their second, of a response that holds them as JSON; none if it does
    not.

    Equal to `extract_bounding_boxes` in `inference_demo.py` (V-STaR, commit 1894682), whose lists
    without seconds find no box in its scorer either; here they are none.

    >>> boxes_in('In second 3: ```json\n{"3": [1, 2, 3, 4]}\n```')
    {'3': [1, 2, 3, 4]}
    >>> boxes_in("{'3.0': [1, 2, 3, 4]}"), boxes_in("nowhere")
    ({'3.0': [1, 2, 3, 4]}, {})
    """
    source = _json_in(response[:MAX_RESPONSE])
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
    """The JSON in a fence, else from the first bracket to the last of its kind."""
    fenced = FENCED.search(response) if "```json" in response else None
    if fenced:
        return fenced[1].strip().replace("'", '"')
    starts = [(place, pair) for pair in ("[]", "{}") if (place := response.find(pair[0])) >= 0]
    for start, pair in sorted(starts):
        end = response.rfind(pair[1])
        if end > start:
            return response[start : end + 1].replace("'", '"')
    return None


def _loads(text: str) -> object:
    if nesting_depth(text) > MAX_DEPTH:
        raise ValueError("too many levels")
    return json.loads(text)


def _by_second(value: object) -> Mapping[str, object]:
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return {key: boxes for item in value for key, boxes in item.items()}
    if isinstance(value, list):
        return {str(item[0]): item[1] for item in value}
    return value if isinstance(value, dict) else {}


def _close_brackets(text: str) -> str:
    """The text with the brackets that it lacks, squares before braces."""
    for left, right in ("[]", "{}"):
        missing = text.count(left) - text.count(right)
        text = text + right * missing if missing > 0 else left * -missing + text
    return text


def boxes_response(boxes: Sequence[tuple[float, Box]]) -> str:
    """The response that gives boxes by their second, in the official form."""
    return json.dumps({str(time): list(box) for time, box in boxes})


def from_track(track: Sequence[Box | None]) -> Mapping[str, list[float]]:
    """Boxes by the text of their whole second, of a track with one frame a second."""
    return {str(second): list(box) for second, box in enumerate(track) if box is not None}


def from_boxes(boxes: Sequence[Box], frames: int) -> Mapping[str, list[float]]:
    """The same, of a list with a box for each frame.

    Raises:
        ParseError: there are not as many boxes as frames.
    """
    if len(boxes) != frames:
        raise ParseError(
            '"boxes"',
            expected=f"{frames} of them, one a second of the video",
            found=f"{len(boxes)}",
            fix='With where=text an "answer" may name seconds.',
        )
    return from_track(boxes)

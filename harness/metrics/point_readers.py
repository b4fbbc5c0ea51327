"""Points as the official scorers of pointing benchmarks read them from responses.

Each reader takes a response and the image's width and height, and returns points in pixels, not yet
cut to whole ones; none where it finds none or the official code ends with an error.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np

from harness.responses import MAX_TEXT, TOO_MANY_DIGITS
from harness.types import Point

Points: TypeAlias = Sequence[Point]
PointReader: TypeAlias = Callable[[str, int, int], Points]

SIGNED = r"[-+]?\d+(?:\.\d*)?"
PLAIN = r"\d+(?:\.\d*)?"
TUPLE = re.compile(rf"\(({SIGNED}(?:,\s*{SIGNED})*)\)")
ATTRIBUTES = re.compile(r'x\d*="\s*(-?\d+(?:\.\d*)?)"\s+y\d*="\s*(-?\d+(?:\.\d*)?)"')
POINT_2D = re.compile(rf'"point_2d":\s*\[({PLAIN}),\s*({PLAIN})\]')
POINT = re.compile(rf'"point":\s*\[({PLAIN}),\s*({PLAIN})\]')
PAIR = re.compile(rf"\[({PLAIN}),\s*({PLAIN})\]")
ANY_PAIR = re.compile(rf"({PLAIN})(?:\s*,\s*|\s+)({PLAIN})")
SHARE_TUPLE = re.compile(rf"\(\s*({PLAIN})\s*,\s*({PLAIN})\s*\)")
SHARE_PAIR = re.compile(rf"\[\s*({PLAIN})\s*,\s*({PLAIN})\s*\]")
MAX_LIST = 10_000  # characters of a list that is read as a literal
MAX_PIXELS = 1 << 20
"""Most pixels of all rectangles of a response: one with more has no points."""

Whole: TypeAlias = Literal["pixels", "shares"]
"""Meaning of whole numbers; those with a point are shares of a side."""


def tuple_points(
    response: str,
    width: int,
    height: int,
    *,
    whole: Whole = "pixels",
    rectangles: Literal["shares", "cut", "none"] = "shares",
) -> Points:
    """Every `(x, y)`, and every pixel of every `(x0, y0, x1, y1)`, in the order of the response.

    A point with a decimal point in either number is in shares of the sides, and cut to a pixel.

    Args:
        response: The text.
        width: Of the image, in pixels.
        height: Of the image, in pixels.
        whole: `pixels`: as `text2pts` of RoboRefer (summarize_acc.py, d97a995) and RoboPoint
            (summarize_vqa.py, adbee8d) has it; `shares`: as `_text2pts` of lmms-eval's
            where2place/utils.py (75571cf).
        rectangles: `shares`: their numbers are shares, and pixels outside of the image count
            (RoboRefer); `cut`: only pixels inside (RoboPoint); `none`: they are left out.

    >>> tuple_points("[(0.5, 0.25), (7, 9)]", 40, 40)
    [Point(x=20.0, y=10.0), Point(x=7.0, y=9.0)]
    """
    points: list[Point] = []
    room = MAX_PIXELS
    try:
        for match in TUPLE.finditer(_bounded(response)):
            numbers = [number.strip() for number in match[1].split(",")]
            values = [float(number) for number in numbers]
            if len(values) == 2:
                is_share = whole == "shares" or any("." in number for number in numbers)
                sides = (width, height) if is_share else (1, 1)
                points.append(
                    Point(*(float(int(v * n)) for v, n in zip(values, sides, strict=True)))
                )
            elif len(values) == 4 and rectangles != "none":
                is_share = rectangles == "shares" or "." in numbers[0]
                if not is_share and any("." in number for number in numbers):
                    return []  # the official code ends with an error
                scale = [width, height] * 2 if is_share else [1] * 4
                corners = [int(v * n) for v, n in zip(values, scale, strict=True)]
                points += _pixels(corners, (height, width) if rectangles == "cut" else None, room)
                room = MAX_PIXELS - len(points)
    except ValueError:  # a rectangle whose end lies before its start, or too large
        return []
    return points


def _pixels(corners: Sequence[int], clip: tuple[int, int] | None, room: int) -> Iterator[Point]:
    """Return the pixels of a rectangle, row by row; `clip` is a mask's size, which it is cut to."""
    left, top, right, bottom = corners
    if clip is not None:
        top, bottom, _ = slice(top, bottom).indices(clip[0])
        left, right, _ = slice(left, right).indices(clip[1])
        bottom, right = max(top, bottom), max(left, right)
    if right < left or bottom < top or (right - left) * (bottom - top) > room:
        raise ValueError("a rectangle of negative size, or a large one")
    rows, columns = np.indices((bottom - top, right - left))
    xs, ys = (columns + left).ravel().tolist(), (rows + top).ravel().tolist()
    return (Point(float(x), float(y)) for x, y in zip(xs, ys, strict=True))


def attribute_points(response: str, width: int, height: int) -> Points:
    """Every `x1="…" y1="…"`, in hundredths of the sides, as Molmo writes points.

    Equal to `xml2pts` of RoboRefer, where a point's numbers are alike; `extract_points` of
    pointarena's model_evaluator.py (dcd82f2) takes the same without a number behind x and y.

    >>> attribute_points('<point x="50" y="25.0">a cup</point>', 40, 40)
    [Point(x=20.0, y=10.0)]
    """
    pairs = ATTRIBUTES.findall(_bounded(response))
    return [Point(float(x) / 100 * width, float(y) / 100 * height) for x, y in pairs]


def gemini_points(response: str, width: int, height: int) -> Points:
    """Every `"point": [y, x]` in thousandths of the sides, as `json2pts` of RoboRefer reads Gemini.

    >>> gemini_points('[{"point": [250, 500], "label": "a cup"}]', 40, 40)
    [Point(x=20.0, y=10.0)]
    """
    pairs = POINT.findall(_bounded(response))
    return [Point(float(x) / 1000 * width, float(y) / 1000 * height) for y, x in pairs]


def json_points(response: str, width: int, height: int) -> Points:
    """Every `"point_2d": [x, y]`, else every `[x, y]`, else the first two numbers, in pixels.

    `call_qwen` of pointarena's model_evaluator.py, behind its forms of XML.

    >>> json_points('[{"point_2d": [10, 20], "label": "a cup"}]', 40, 40)
    [Point(x=10.0, y=20.0)]
    >>> json_points("[(10, 20), (1, 2)]", 40, 40)
    [Point(x=10.0, y=20.0)]
    """
    text = _bounded(response)
    start, end = text.find("["), text.rfind("]") + 1
    inside = text[start:end] if start >= 0 and end > 0 else ""
    pairs = POINT_2D.findall(inside) or PAIR.findall(inside)
    if not pairs:
        pairs = ANY_PAIR.findall(text)[: 1 if inside else None]
    return [Point(float(x), float(y)) for x, y in pairs]


def point_2d_points(response: str, width: int, height: int) -> Points:
    """Every `"point_2d": [x, y]`, in pixels, as Qwen2.5-VL writes points.

    >>> point_2d_points('[{"point_2d": [10, 20], "label": "a cup"}]', 40, 40)
    [Point(x=10.0, y=20.0)]
    """
    return [Point(float(x), float(y)) for x, y in POINT_2D.findall(_bounded(response))]


def share_tuple(response: str, width: int, height: int) -> Points:
    """The first `(x, y)` of a response, in shares of the sides.

    The form that `evaluate_answer` of RoboSpatial-Eval (evaluation.py, 19f04a5) looks for first.

    >>> share_tuple("Here: [(0.5, 0.25), (0.1, 0.1)]", 40, 40)
    [Point(x=20.0, y=10.0)]
    """
    match = SHARE_TUPLE.search(_bounded(response))
    return [] if match is None else [Point(float(match[1]) * width, float(match[2]) * height)]


def share_pair(response: str, width: int, height: int) -> Points:
    """The first `[x, y]` of a response, in shares of the sides, or the first list as a literal.

    The other forms of `evaluate_answer`.

    >>> share_pair("[[0.5, 0.25]]", 40, 40), share_pair("[.5, 1e-1]", 40, 40)
    ([Point(x=20.0, y=10.0)], [Point(x=20.0, y=4.0)])
    """
    text = _bounded(response)
    if match := SHARE_PAIR.search(text):
        pair: Sequence[object] = (float(match[1]), float(match[2]))
    else:
        pair = _literal_pair(text)
    if len(pair) != 2 or not all(type(number) in (int, float) for number in pair):
        return []
    x, y = (float(number) for number in pair)  # type: ignore[arg-type]
    return [Point(x * width, y * height)]


def share_points(response: str, width: int, height: int) -> Points:
    """Every `(x, y)` of a response that is a list of such, in shares of the sides.

    A reader of ours, for benchmarks without an official one. None unless all numbers have decimals
    and are from 0 to 1: others may be pixels, percent or thousandths.

    >>> share_points("[(0.5, 0.25), (1.0, 0.0)]", 40, 40)
    [Point(x=20.0, y=10.0), Point(x=40.0, y=0.0)]
    >>> [share_points(text, 40, 40) for text in ("[(0.5, 0.5), (7, 9)]", "Not at (0.5, 0.5).")]
    [[], []]
    """
    text = _bounded(response)
    pairs = SHARE_TUPLE.findall(text)
    is_list = not re.search(r"[\w%]", SHARE_TUPLE.sub(" ", text).replace("```python", ""))
    if not is_list or not all(
        "." in share and float(share) <= 1 for pair in pairs for share in pair
    ):
        return []
    return [Point(float(x) * width, float(y) * height) for x, y in pairs]


def _literal_pair(text: str) -> Sequence[object]:
    """Return the pair that the first list is or begins with; else nothing, or something longer."""
    start = text.find("[")
    end = text.find("]", start)
    if start < 0 or not 0 <= end - start <= MAX_LIST:
        return ()
    inside = text[start + 1 : end].strip().removesuffix(",")
    try:
        value = ast.literal_eval(f"[{inside}]")
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return ()
    first = value[0] if value else ()
    return first if isinstance(first, tuple) else value


def _bounded(response: str) -> str:
    """Return what is read of a response; nothing of one with a number of more than 64 digits."""
    text = response[:MAX_TEXT]
    return "" if TOO_MANY_DIGITS.search(text) else text

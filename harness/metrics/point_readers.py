"""Readers of points from a response, as the official scorers of pointing benchmarks read them.

Each takes a response and the image's width and height, and returns points in pixels of the image
(floats), or [] if the official code finds none or fails. A *share* is a fraction of the image's
width (x) or height (y), from 0 to 1.
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

SIGNED = r"[-+]?\d+(?:\.\d*)?"  # -3.5
NUMBER = r"\d+(?:\.\d*)?"  # 3.5
TUPLE = re.compile(rf"\(({SIGNED}(?:,\s*{SIGNED})*)\)")  # (0.5, 0.25) or (1, 2, 3, 4)
ATTRIBUTES = re.compile(  # x1="50.0" y1="25"
    r'x\d*="\s*(-?\d+(?:\.\d*)?)"\s+y\d*="\s*(-?\d+(?:\.\d*)?)"'
)
POINT_2D = re.compile(rf'"point_2d":\s*\[({NUMBER}),\s*({NUMBER})\]')  # "point_2d": [10, 20]
POINT = re.compile(rf'"point":\s*\[({NUMBER}),\s*({NUMBER})\]')  # "point": [10, 20]
PAIR = re.compile(rf"\[({NUMBER}),\s*({NUMBER})\]")  # [10, 20]
ANY_PAIR = re.compile(rf"({NUMBER})(?:\s*,\s*|\s+)({NUMBER})")  # 10, 20 or 10 20
SHARE_TUPLE = re.compile(rf"\(\s*({NUMBER})\s*,\s*({NUMBER})\s*\)")  # ( 0.5, 0.25 )
SHARE_PAIR = re.compile(rf"\[\s*({NUMBER})\s*,\s*({NUMBER})\s*\]")  # [ 0.5, 0.25 ]
MAX_LITERAL = 10_000  # characters of a list that is read as a Python literal
MAX_PIXELS = 1 << 20
"""Most pixels in all rectangles of a response: a response with more has no points."""

Whole: TypeAlias = Literal["pixels", "shares"]
"""Meaning of whole numbers. Numbers with a decimal point are always shares of a side."""


def tuple_points(
    response: str,
    width: int,
    height: int,
    *,
    whole: Whole = "pixels",
    rectangles: Literal["shares", "cut", "none"] = "shares",
) -> Points:
    """Return every `(x, y)`, and every pixel of every rectangle `(x0, y0, x1, y1)`, in order.

    A pair with a decimal point in either number is in shares. Points are cut to whole pixels.

    Args:
        response: The text.
        width: Width of the image in pixels.
        height: Height of the image in pixels.
        whole: Meaning of whole numbers. `pixels`: as `text2pts` of RoboRefer (summarize_acc.py,
            d97a995) and RoboPoint (summarize_vqa.py, adbee8d); `shares`: as `_text2pts` of
            lmms-eval's where2place/utils.py (75571cf).
        rectangles: `shares`: their numbers are shares, and pixels outside of the image count too
            (RoboRefer); `cut`: shares or pixels, and only pixels in the image count (RoboPoint);
            `none`: they are left out.

    >>> tuple_points("[(0.5, 0.25), (7, 9)]", 40, 40)
    [Point(x=20.0, y=10.0), Point(x=7.0, y=9.0)]
    """
    points: list[Point] = []
    pixels_left = MAX_PIXELS
    try:
        for match in TUPLE.finditer(_bounded(response)):
            numbers = [number.strip() for number in match[1].split(",")]
            values = [float(number) for number in numbers]
            if len(values) == 2:
                is_share = whole == "shares" or any("." in number for number in numbers)
                sides = (width, height) if is_share else (1, 1)
                x, y = (int(value * side) for value, side in zip(values, sides, strict=True))
                points.append(Point(float(x), float(y)))
            elif len(values) == 4 and rectangles != "none":
                is_share = rectangles == "shares" or "." in numbers[0]
                if not is_share and any("." in number for number in numbers):
                    return []  # the official code ends with an error
                scale = [width, height] * 2 if is_share else [1] * 4
                corners = [int(value * side) for value, side in zip(values, scale, strict=True)]
                clip = (height, width) if rectangles == "cut" else None
                points += _pixels(corners, clip, pixels_left)
                pixels_left = MAX_PIXELS - len(points)
    except ValueError:  # from `_pixels`
        return []
    return points


def _pixels(corners: Sequence[int], clip: tuple[int, int] | None, limit: int) -> Iterator[Point]:
    """Return the pixels of a rectangle, row by row.

    Args:
        corners: Left, top, right, bottom, the last two exclusive.
        clip: (height, width) of the image, outside of which pixels are left out; negative numbers
            count from its end, as in the official slice. None: pixels outside count.
        limit: Largest number of pixels.

    Raises:
        ValueError: there are more pixels, or a side is negative.
    """
    left, top, right, bottom = corners
    if clip is not None:
        top, bottom, _ = slice(top, bottom).indices(clip[0])
        left, right, _ = slice(left, right).indices(clip[1])
        bottom, right = max(top, bottom), max(left, right)
    if right < left or bottom < top or (right - left) * (bottom - top) > limit:
        raise ValueError("a rectangle of negative size, or a large one")
    rows, columns = np.indices((bottom - top, right - left))
    xs, ys = (columns + left).ravel().tolist(), (rows + top).ravel().tolist()
    return (Point(float(x), float(y)) for x, y in zip(xs, ys, strict=True))


def attribute_points(response: str, width: int, height: int) -> Points:
    """Return every `x1="…" y1="…"`, in hundredths of the sides, as Molmo writes points.

    Equal to `xml2pts` of RoboRefer if the indices agree (`x1` with `y1`); `extract_points` of
    pointarena's model_evaluator.py (dcd82f2) ignores the indices, as this function does.

    >>> attribute_points('<point x="50" y="25.0">a cup</point>', 40, 40)
    [Point(x=20.0, y=10.0)]
    """
    pairs = ATTRIBUTES.findall(_bounded(response))
    return [Point(float(x) / 100 * width, float(y) / 100 * height) for x, y in pairs]


def gemini_points(response: str, width: int, height: int) -> Points:
    """Return every `"point": [y, x]`, in thousandths of the sides, as Gemini writes points.

    Equal to `json2pts` of RoboRefer.

    >>> gemini_points('[{"point": [250, 500], "label": "a cup"}]', 40, 40)
    [Point(x=20.0, y=10.0)]
    """
    pairs = POINT.findall(_bounded(response))
    return [Point(float(x) / 1000 * width, float(y) / 1000 * height) for y, x in pairs]


def json_points(response: str, width: int, height: int) -> Points:
    """Return every `"point_2d": [x, y]`, else every `[x, y]`, else pairs of numbers, in pixels.

    Equal to what `call_qwen` of pointarena's model_evaluator.py reads in a response without XML. Of
    mere pairs of numbers only the first counts if the response has a list.

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
    """Return every `"point_2d": [x, y]`, in pixels, as Qwen2.5-VL writes points.

    >>> point_2d_points('[{"point_2d": [10, 20], "label": "a cup"}]', 40, 40)
    [Point(x=10.0, y=20.0)]
    """
    return [Point(float(x), float(y)) for x, y in POINT_2D.findall(_bounded(response))]


def share_tuple(response: str, width: int, height: int) -> Points:
    """Return the first `(x, y)` of a response, in shares of the sides.

    `evaluate_answer` of RoboSpatial-Eval (evaluation.py, 19f04a5) looks for this form first.

    >>> share_tuple("Here: [(0.5, 0.25), (0.1, 0.1)]", 40, 40)
    [Point(x=20.0, y=10.0)]
    """
    match = SHARE_TUPLE.search(_bounded(response))
    return [] if match is None else [Point(float(match[1]) * width, float(match[2]) * height)]


def share_pair(response: str, width: int, height: int) -> Points:
    """Return the first `[x, y]` of a response, in shares of the sides.

    If there is none, the first list is read as a Python literal. These are the other forms of
    `evaluate_answer` (see `share_tuple`).

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
    """Return every `(x, y)` of a response that is a list of such pairs, in shares of the sides.

    For benchmarks without an official reader. It returns [] if the response has other words, or a
    number without decimals or beyond 1, which may be pixels, percent or thousandths.

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
    """Return the first list as a Python literal, or the tuple that begins it; () without a list."""
    start = text.find("[")
    end = text.find("]", start)
    if start < 0 or not 0 <= end - start <= MAX_LITERAL:
        return ()
    inside = text[start + 1 : end].strip().removesuffix(",")
    try:
        value = ast.literal_eval(f"[{inside}]")
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return ()
    first = value[0] if value else ()
    return first if isinstance(first, tuple) else value


def _bounded(response: str) -> str:
    """Return the first `MAX_TEXT` characters; empty if a number there has more than 64 digits."""
    text = response[:MAX_TEXT]
    return "" if TOO_MANY_DIGITS.search(text) else text

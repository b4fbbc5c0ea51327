"""Read the values of a record's cells, as JSON has them or as text tables write them."""

import ast
import base64
import binascii
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from io import StringIO
from pathlib import Path
from tokenize import STRING, generate_tokens
from typing import Any

from harness.errors import DataError
from harness.layout import path_inside
from harness.layout.places import flat_polygons
from harness.tasks.refer.annotations import is_polygon

MAX_LITERAL = 100_000
"""Most characters of a list or an object that is parsed from a cell's text."""
BASE64_LENGTH = 64
"""Least number of characters of an image in base64; names of files are shorter."""
BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
DATA_URI = re.compile(r"data:image/[\w.+-]+;base64,", re.IGNORECASE)


NUMBER = r"[-+−]?(?:\d+(?:[.,]\d+)*|[.,]\d+)"
THOUSANDS = re.compile(r"[-+−]?[1-9]\d{0,2}(?:\.\d{3})+")
"""A number whose points may part thousands, as in German: `1.250`."""
MARKED = re.compile(
    r"(?:<think>(?:(?!<think>).)*</think>)?\s*<answer>(?P<said>(?:(?!<answer>).)*)</answer>"
    r"|\$?\\boxed\{(?P<boxed>(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}\$?",
    re.DOTALL,
)
"""A whole cell in which marks stand around the answer, as in the solutions of training sets."""
CLOCK = re.compile(r"(?:(\d{1,2}):)?(\d{1,2}):(\d{2}(?:\.\d+)?)")
SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s?(?:s|secs?|seconds?)?", re.IGNORECASE)
BETWEEN = re.compile(r"\s*(?:-|–|—|~|;|,(?=\s)|\bto\b)\s*")


def plain_value(value: object) -> Any:
    """Return a cell's value; the text of a list or an object, as in text tables, is parsed.

    A number in brackets is none of these: `(12.5)` is negative in tables of finance.

    >>> plain_value("[1, 2]"), plain_value("['a', 'b']"), plain_value("a"), plain_value("[x")
    ([1, 2], ['a', 'b'], 'a', '[x')
    >>> plain_value("(12.5)"), plain_value("(3, 4)")
    ('(12.5)', (3, 4))
    """
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if not isinstance(value, str) or value[:1] not in ("[", "{", "(") or len(value) > MAX_LITERAL:
        return value
    for read in (json.loads, _literal):  # a Python literal, as pandas writes lists
        try:
            plain = read(value)
            return value if value[0] == "(" and not isinstance(plain, (list, tuple)) else plain
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return value


def _literal(text: str) -> Any:
    """Return the value of a Python literal, or of NumPy's text of an array of texts.

    NumPy writes blanks between texts, which Python would join.

    >>> _literal("['a' 'b c']"), _literal("['a', 'b c']")
    (['a', 'b c'], ['a', 'b c'])
    """
    value = ast.literal_eval(text)
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        return value
    tokens = list(generate_tokens(StringIO(text).readline))
    texts = [ast.literal_eval(token.string) for token in tokens if token.type == STRING]
    has_commas = any(token.string == "," for token in tokens)
    return value if has_commas or len(texts) < 2 else texts


def without_marks(value: object) -> object:
    r"""Return what stands between `<answer>` marks or in `\boxed{}`, where that is a whole cell.

    >>> without_marks("<answer> B </answer>"), without_marks(r"$\boxed{12}$"), without_marks("B")
    ('B', '12', 'B')
    """
    match = MARKED.fullmatch(value.strip()) if isinstance(value, str) else None
    return value if match is None else (match["said"] or match["boxed"] or "").strip()


def right_texts(value: object) -> list[Any]:
    """Return the texts of a list of texts, or of a cell's text that is one; else [value].

    Numbers beside texts, and the only number of a list, are texts too; several are a point or a
    box.

    >>> right_texts(["a", 2]), right_texts("['a', 'b']"), right_texts([3]), right_texts("[1, 2]")
    (['a', 2], ['a', 'b'], [3], ['[1, 2]'])
    """
    plain = plain_value(value)
    if not isinstance(plain, list) or not all(type(part) in (str, int, float) for part in plain):
        return [value]
    has_text = any(isinstance(part, str) for part in plain)
    is_number = len(plain) == 1 and not isinstance(value, str)
    return plain if has_text or is_number else [value]


def is_empty(value: object) -> bool:
    """Return True for a cell without a value: null, NaN, or no text."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def is_absent(value: object) -> bool:
    """Return True for an empty cell of an option, or for the text by which NaN is written."""
    return is_empty(value) or str(value).strip().lower() in ("nan", "<na>")


def numbers(value: object, count: int, where: str) -> list[float]:
    """Return `count` finite numbers of a list.

    Raises:
        DataError: the value is something else.
    """
    plain = plain_value(value)
    if (
        not isinstance(plain, (list, tuple))
        or len(plain) != count
        or not all(type(part) in (int, float) and abs(part) < 1e12 for part in plain)
    ):
        raise DataError(where, expected=f"{count} numbers", found=repr(value)[:60])
    return [float(part) for part in plain]


def clock_span(value: object) -> list[float] | None:
    """Return [start, end] in seconds of two times in a text or a list; None for anything else.

    Times are `[h:]mm:ss`, or both are numbers of seconds.

    >>> clock_span("00:03 - 0:07.5"), clock_span("3-7"), clock_span(["1:00:00", "1:00:01"])
    ([3.0, 7.5], [3.0, 7.0], [3600.0, 3601.0])
    >>> clock_span("From 3.5s to 7 seconds.")
    [3.5, 7.0]
    >>> clock_span("00:03 - 7"), clock_span("3"), clock_span("0:75 - 0:80")
    (None, None, None)
    """
    if isinstance(value, str):
        value = BETWEEN.split(re.sub(r"(?i)\Afrom\s", "", value.strip(" []().")))
    parts = value
    if not isinstance(parts, (list, tuple)) or len(parts) != 2:
        return None
    texts = [str(part).strip() for part in parts]
    clocks = [CLOCK.fullmatch(text) for text in texts]
    if all(clocks):
        split = [[float(part or 0) for part in clock.groups()] for clock in clocks if clock]
        if any(seconds >= 60 for _, _, seconds in split):
            return None
        return [3600 * hours + 60 * minutes + seconds for hours, minutes, seconds in split]
    seconds = [match[1] for text in texts if (match := SECONDS.fullmatch(text))]
    return list(map(float, seconds)) if len(seconds) == 2 else None


def only_window(value: object) -> object:
    """Return the window in a list of one, as QVHighlights writes it; other values as they are.

    >>> only_window("[[10, 16]]"), only_window([24.3, 30.4]), only_window([[20, 24], [40, 44]])
    ([10, 16], [24.3, 30.4], [[20, 24], [40, 44]])
    """
    plain = plain_value(value)
    is_only = isinstance(plain, list) and len(plain) == 1 and isinstance(plain[0], list)
    return plain[0] if is_only else value


def polygons_of(plain: object) -> object:
    """Return polygons in COCO's flat form, also those in a list for each object; others unchanged.

    >>> polygons_of([[[[0, 0], [4, 0], [4, 4]]], [[[6, 0], [9, 0], [9, 4]]]])
    [[0, 0, 4, 0, 4, 4], [6, 0, 9, 0, 9, 4]]
    >>> polygons_of([{"x": 0, "y": 0}, {"x": 4, "y": 0}, {"x": 4, "y": 4}])
    [[0, 0, 4, 0, 4, 4]]
    """
    plain, objects = _as_pairs(plain), list[list[float]]()
    for part in map(flat_polygons, plain) if isinstance(plain, list) else ():
        if not isinstance(part, list) or not part or not all(map(is_polygon, part)):
            break
        objects += part
    else:
        return objects or plain
    return flat_polygons(plain)


def _as_pairs(plain: object) -> object:
    """Return a value in which each list of three corners or more, `{"x", "y"}`, is one of pairs."""
    if not isinstance(plain, list):
        return plain
    corners = [part for part in plain if isinstance(part, dict) and part.keys() == {"x", "y"}]
    if len(corners) > 2 and len(corners) == len(plain):
        return [[corner["x"], corner["y"]] for corner in corners]
    return list(map(_as_pairs, plain))


def image_cells(value: object, where: str, folder: Path) -> tuple[bytes | Path, ...]:
    """Return the images of a cell: encoded bytes, or files below the folder.

    Args:
        value: A name, a list of names, bytes, base64 with or without `data:image/…`, or
            `{"bytes": …, "path": …}` as the `datasets` library writes it.
        where: The place of the cell, for messages.
        folder: The folder of files that are named.

    Raises:
        DataError: there is no image, it is an address, or a name leaves the folder.
    """
    plain = plain_value(value)
    entries = plain if isinstance(plain, (list, tuple)) else [plain]
    images = [_image(entry, where, folder) for entry in entries if not is_empty(entry)]
    if not images:
        raise DataError(where, expected="an image", found=repr(value)[:40])
    return tuple(images)


def _image(entry: object, where: str, folder: Path) -> bytes | Path:
    """Return one image of a cell; see `image_cells`."""
    if isinstance(entry, Mapping):
        entry = entry.get("bytes") or entry.get("path")
    if isinstance(entry, bytes):
        return entry
    if not isinstance(entry, str) or not entry:
        raise DataError(where, expected="the name or the bytes of an image", found=repr(entry)[:60])
    if entry.startswith(("http://", "https://")):
        raise DataError(
            where,
            expected="the name of a file, or an image in base64",
            found=f"the address {entry[:80]}",
            fix="Download the images, and name the files in the table.",
        )
    if encoded := _base64(entry, where):
        return encoded
    return path_inside(folder, entry)


def _base64(text: str, where: str) -> bytes | None:
    """Decode an image in base64; None for another text, such as a name."""
    prefix = DATA_URI.match(text)
    body = text[prefix.end() :] if prefix else text
    if prefix is None and (len(text) < BASE64_LENGTH or not BASE64.fullmatch(text)):
        return None
    try:
        return base64.b64decode(body, validate=prefix is not None)
    except binascii.Error as error:
        raise DataError(where, expected="an image in base64", found=str(error)) from error

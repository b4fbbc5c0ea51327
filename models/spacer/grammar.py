"""SpaceR's `<map>{"table": [[0, 3], [5, 7]], …}</map>`: places on a 10 × 10 grid by category.

What is read, and what is not, follows `extract_map.py` (OuyangKun10/SpaceR, commit b623af5): a
dictionary in Python's notation, or else the numbers that follow each name in the text.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from harness.errors import ParseError
from harness.models.video_str.grammar import python_literal
from harness.responses import tag_text

GRID = 10
"""Cells along each side of the map."""

Cell: TypeAlias = tuple[int, int]
GridMap: TypeAlias = Mapping[str, Sequence[Cell]]
"""Cells by category, in lower case."""

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
WRAPPED = re.compile(r"[<\[(]*(-?\d+(?:\.\d+)?)[>\])]*")
NAME = re.compile(r"[^\w\s]*([\w\s]+)[^\w\s]*")
FARTHEST = 1e150  # beyond it distances are not finite


def has_map(response: str) -> bool:
    """Return True if a response has the tags of a map, whatever is in them."""
    return "<map>" in response and "</map>" in response


def grid_map(response: str, names: Collection[str]) -> GridMap:
    """Return the map of a response, of the requested categories; empty where nothing can be read.

    Raises:
        ParseError: a coordinate is not finite.

    >>> grid_map("<map>{'Table': [[0, 3], (5, 7.9)], 'lamp': [1, 1]}</map>", ["table", "chair"])
    {'table': [(0, 3), (5, 7)]}
    >>> grid_map("<map>the table is at 0, 3</map>", ["table"])
    {'table': [(0, 3)]}
    """
    text = tag_text(response, "map") or ""
    wanted = {name.lower() for name in names if name}
    if not text or not wanted:
        return {}
    value = _dictionary(text)
    if value is not None:
        return _from_dictionary(value, wanted)
    return _from_text(text, [name for name in names if name])


def _dictionary(text: str) -> dict[object, object] | None:
    if text.startswith("str{") and text.endswith("}"):
        inner = text[4:-1].strip()
        if inner.startswith("{") and inner.endswith("}"):
            text = inner
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        value = python_literal(text)
    except ParseError:
        return None
    return value if isinstance(value, dict) else None


def _from_dictionary(value: Mapping[object, object], wanted: Collection[str]) -> GridMap:
    grid: dict[str, list[Cell]] = {}
    for key, places in value.items():
        name = str(key).lower().strip()
        match = NAME.fullmatch(name)
        name = match[1].strip() if match else name
        if name not in wanted:
            continue
        listed = places if isinstance(places, list) else [places]
        cells = [cell for place in listed if (cell := _cell(place)) is not None]
        if cells:
            grid.setdefault(name, []).extend(cells)
    return grid


def _cell(value: object) -> Cell | None:
    """Parse two numbers, in a list, a tuple, a text, or a list of one such pair; truncate them."""
    if isinstance(value, str):
        numbers: Sequence[object] = NUMBER.findall(value)[:2]
    elif isinstance(value, (list, tuple)):
        inner = value[0] if len(value) == 1 else value
        numbers = inner if isinstance(inner, (list, tuple)) else []
    else:
        return None
    if len(numbers) != 2:
        return None
    pair = [_number(number) for number in numbers]
    return None if pair[0] is None or pair[1] is None else (pair[0], pair[1])


def _number(value: object) -> int | None:
    if isinstance(value, str):
        match = WRAPPED.fullmatch(value.strip())
        try:
            value = float(match[1] if match else value)
        except ValueError:
            return None
    if not isinstance(value, (int, float)):
        return None
    if abs(value) > FARTHEST:  # first: an integer beyond all floats cannot be asked if it is NaN
        raise ParseError("map", expected="finite coordinates", found="others")
    return None if math.isnan(value) else int(value)


def _from_text(text: str, names: Sequence[str]) -> GridMap:
    """The numbers between each name and the next, two a cell."""
    grid: dict[str, list[Cell]] = {}
    places = list(_occurrences(text, names))
    for place, (name, _, end) in enumerate(places):
        stop = places[place + 1][1] if place + 1 < len(places) else len(text)
        numbers: Sequence[object] = NUMBER.findall(text[end:stop])
        pairs = zip(numbers[0::2], numbers[1::2], strict=False)
        cells = [cell for pair in pairs if (cell := _cell(pair)) is not None]
        if cells:
            grid.setdefault(name, []).extend(cells)
    return grid


def _occurrences(text: str, names: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Whole words that are names, with their places; of those that overlap, the longer."""
    every = [
        (match.start(), -match.end(), name.lower())
        for name in names
        for match in re.finditer(
            rf"(?<![a-zA-Z]){re.escape(name)}(?![a-zA-Z])", text, re.IGNORECASE
        )
    ]
    kept: list[tuple[int, int, str]] = []
    for start, end, name in sorted(every, key=lambda occurrence: occurrence[:2]):
        if kept and start < -kept[-1][1]:
            if -end <= -kept[-1][1]:
                continue
            kept.pop()
        kept.append((start, end, name))
    return ((name, start, -end) for start, end, name in kept)

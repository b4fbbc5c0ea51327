"""Read SpaceR's `<map>{"table": [[0, 3], [5, 7]], …}</map>`: cells of a 10 × 10 grid by category.

As in `extract_map.py` (OuyangKun10/SpaceR, commit b623af5), the map is a dictionary in Python's
notation, or else the numbers that follow each name in the text. SpaceR's reward compares it with
the true map.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from harness.errors import ParseError
from harness.models.video_str.grammar import python_literal
from harness.responses import tag_text

GRID = 10
"""Cells along each side of the map."""

Cell: TypeAlias = tuple[int, int]
GridMap: TypeAlias = Mapping[str, Sequence[Cell]]
"""Cells by category; categories are in lower case."""

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
WRAPPED = re.compile(r"[<\[(]*(-?\d+(?:\.\d+)?)[>\])]*")
"""Matches a number in brackets, such as "<3>" or "[(7.5)]"."""
NAME = re.compile(r"[^\w\s]*([\w\s]+)[^\w\s]*")
"""Matches a name between marks, such as "*dining table*"."""
MAX_COORDINATE = 1e150  # the square of a larger coordinate, and so a distance, may not be finite


def has_map(response: str) -> bool:
    """Return True if a response has both tags of a map, whatever is between them."""
    return "<map>" in response and "</map>" in response


def grid_map(response: str, names: Collection[str]) -> GridMap:
    """Return the cells of the categories in `names` that a response's map gives.

    The result is empty if the response has no map or none of it can be read.

    Raises:
        ParseError: a coordinate is not finite.

    >>> grid_map("<map>{'Table': [[0, 3], (5, 7.9)], 'lamp': [1, 1]}</map>", ["table", "chair"])
    {'table': [(0, 3), (5, 7)]}
    >>> grid_map("<map>the table is at 0, 3</map>", ["table"])
    {'table': [(0, 3)]}
    """
    text = tag_text(response, "map") or ""
    lower_names = {name.lower() for name in names if name}
    if not text or not lower_names:
        return {}
    value = _dictionary(text)
    if value is not None:
        return _from_dictionary(value, lower_names)
    return _from_text(text, [name for name in names if name])


def _dictionary(text: str) -> dict[object, object] | None:
    """Return the dictionary of a text such as "{'table': [0, 3]}" or "str{{…}}"; None if none."""
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


def _from_dictionary(value: Mapping[object, object], lower_names: Collection[str]) -> GridMap:
    """Return the cells of the keys that are in `lower_names`, which are in lower case."""
    grid: dict[str, list[Cell]] = {}
    for key, cell_values in value.items():
        name = str(key).lower().strip()
        match = NAME.fullmatch(name)
        name = match[1].strip() if match else name
        if name not in lower_names:
            continue
        listed = cell_values if isinstance(cell_values, list) else [cell_values]
        cells = [cell for cell in map(_cell, listed) if cell is not None]
        if cells:
            grid.setdefault(name, []).extend(cells)
    return grid


def _cell(value: object) -> Cell | None:
    """Return the cell of two numbers, truncated: "3, 5", [3, 5], (3, 5.9) or [[3, 5]].

    None if the value has another form.
    """
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
    """Return a number or its text, truncated; None if it is neither, or NaN.

    Raises:
        ParseError: its magnitude is above `MAX_COORDINATE`.
    """
    if isinstance(value, str):
        match = WRAPPED.fullmatch(value.strip())
        try:
            value = float(match[1] if match else value)
        except ValueError:
            return None
    if not isinstance(value, (int, float)):
        return None
    # Before `isnan`, which raises for an integer too large for a float.
    if abs(value) > MAX_COORDINATE:
        raise ParseError("map", expected="finite coordinates", found="others")
    return None if math.isnan(value) else int(value)


def _from_text(text: str, names: Sequence[str]) -> GridMap:
    """Return the cells that the numbers between each name and the next give, two for a cell."""
    grid: dict[str, list[Cell]] = {}
    occurrences = _occurrences(text, names)
    next_starts = [start for start, _, _ in occurrences[1:]] + [len(text)]
    for (_, end, name), next_start in zip(occurrences, next_starts, strict=False):
        numbers: Sequence[object] = NUMBER.findall(text[end:next_start])
        pairs = zip(numbers[0::2], numbers[1::2], strict=False)
        cells = [cell for cell in map(_cell, pairs) if cell is not None]
        if cells:
            grid.setdefault(name, []).extend(cells)
    return grid


def _occurrences(text: str, names: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return (start, end, lower-case name) of each name that is a whole word of a text, in order.

    Of two that overlap, the one that ends later stays: "coffee table" rather than "coffee".
    """
    matches = [
        (match.start(), match.end(), name.lower())
        for name in names
        for match in re.finditer(
            rf"(?<![a-zA-Z]){re.escape(name)}(?![a-zA-Z])", text, re.IGNORECASE
        )
    ]
    occurrences: list[tuple[int, int, str]] = []
    for start, end, name in sorted(matches, key=lambda match: (match[0], -match[1])):
        overlaps = bool(occurrences) and start < occurrences[-1][1]
        if overlaps and end <= occurrences[-1][1]:
            continue
        if overlaps:
            occurrences.pop()
        occurrences.append((start, end, name))
    return occurrences

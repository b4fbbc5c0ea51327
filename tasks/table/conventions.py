"""Conventions in which an answer names one of its question's options.

A function for each returns the option's position from 0, or None if a text does not name one so.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from string import ascii_uppercase

PARTS = re.compile(r"(\d+)")
LETTER = re.compile(r"\(([A-Za-z])\)|([A-Za-z])")
"""A letter of an option, which may stand in parentheses."""


def letter_of(text: str) -> str | None:
    """Return the large letter that a text is, such as "B", "b" or "(b)"; None for other texts."""
    match = LETTER.fullmatch(text)
    return (match[1] or match[2]).upper() if match else None


def _letter(text: str, options: Sequence[str], columns: Sequence[str]) -> int | None:
    letter = letter_of(text)
    return _known(ascii_uppercase.index(letter) if letter else -1, options)


def _marked(text: str, options: Sequence[str], columns: Sequence[str]) -> int | None:
    match = re.match(r"\(?([A-Z])[.):]", text)
    return _known(ascii_uppercase.index(match[1]) if match else -1, options)


def _field(text: str, options: Sequence[str], columns: Sequence[str]) -> int | None:
    return columns.index(text) if text in columns else None


def _option(text: str, options: Sequence[str], columns: Sequence[str]) -> int | None:
    return options.index(text) if text in options else None


def _place(text: str, options: Sequence[str], columns: Sequence[str]) -> int | None:
    return _known(int(text) if text.isdecimal() else -1, options)


def _place_from_1(text: str, options: Sequence[str], columns: Sequence[str]) -> int | None:
    return _known(int(text) - 1 if text.isdecimal() else -1, options)


def _known(place: int, options: Sequence[str]) -> int | None:
    """Return a position if it is one of the options; else None."""
    return place if 0 <= place < len(options) else None


CONVENTIONS: Mapping[str, Callable[[str, Sequence[str], Sequence[str]], int | None]] = {
    "letter": _letter,
    "marked": _marked,
    "field": _field,
    "option": _option,
    "place": _place,
    "place_from_1": _place_from_1,
}
"""Function of each convention: (answer, texts of the options, columns of the options) → position.

The likeliest convention comes first.
"""


def conventions_of(text: str, options: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the conventions in which a text names one of these options.

    >>> conventions_of("2", ["2", "4"], ()), conventions_of("the cat", ["the dog"], ())
    (['option', 'place_from_1'], [])
    """
    return [name for name, read in CONVENTIONS.items() if read(text, options, columns) is not None]


def by_marks(options: Mapping[str, object]) -> list[object]:
    """Return the options that an object has by their marks, in the order of these.

    Numbers count by their value. Empty options behind the last one are none.

    >>> by_marks({"B": "x", "A": "y", "C": None}), by_marks({"no10": "x", "no9": "y"})
    (['y', 'x'], ['y', 'x'])
    """
    marks = sorted(options, key=_in_parts)
    while marks and options[marks[-1]] is None:
        marks.pop()
    return [options[mark] for mark in marks]


def _in_parts(mark: str) -> list[tuple[int, str]]:
    """Return the numbers of a mark and the texts between them, for comparisons."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in PARTS.split(str(mark))]


def leave_one_out(marks: Iterable[str]) -> bool:
    """Return True for letters or numbers that do not go on from A, 0 or 1 without a gap.

    >>> leave_one_out("BCD"), leave_one_out("ABCD"), leave_one_out(["2", "1"]), leave_one_out("AC")
    (True, False, False, True)
    """
    names = sorted((str(mark).upper() for mark in marks), key=_in_parts)
    rows = [list(ascii_uppercase), *(list(map(str, range(first, 100))) for first in (0, 1))]
    are_marks = all(len(name) == 1 or name.isdecimal() for name in names)
    return are_marks and names not in [row[: len(names)] for row in rows]

"""Where a table has the options of its questions: a list, a text, columns, or the question.

Columns of options are numbered or lettered from the first on, whatever else their names are:
`A`, `B`; `option_a`; `choice1`; `candidate-0`.
"""

import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase

from harness.tasks.table.cells import is_absent, plain_value

SERIES = re.compile(r"(.*?)([_\- .]*)(\d{1,2}|[A-Za-z])")
"""A name, what separates it from its number or letter, and that."""
NOT_OPTIONS = re.compile(
    r"image|img|picture|video|vid|frame|question|query|prompt|hint|mask|box|bbox|point|id|index|"
    r"split|level|category|l|x|y|hop|turn|path|file|url",
    re.IGNORECASE,
)
"""Names of other columns that are numbered."""
STARTS = ("0", "1", "a", "A")
MARK = re.compile(r"(?:^|(?<=\s))\(?([A-Z])(?:\)|[.:](?=\s))", re.MULTILINE)
"""A letter that begins an option in a text."""
LINE = re.compile(r"\s*\(?([A-Z])\s*[.):]\s*\S")


def option_columns(names: Sequence[str], rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the columns that hold an option each, in their order; [] if there are none."""
    series: dict[tuple[str, str], dict[str, str]] = {}
    for name in names:
        if (match := SERIES.fullmatch(name)) and not NOT_OPTIONS.fullmatch(match[1]):
            separated = bool(match[2]) or not match[1] or match[3].isdecimal() or match[3].isupper()
            if separated:
                series.setdefault((match[1], match[2]), {})[match[3]] = name
    for members in series.values():
        for first in STARTS:
            columns: list[str] = []
            while (place := _after(first, len(columns))) in members:
                columns.append(members[place])
            if len(columns) > 1 and _hold_texts(columns[:2], rows):
                return columns
    return []


def _after(first: str, steps: int) -> str:
    """Return the number or letter so many places after the first."""
    return str(int(first) + steps) if first.isdecimal() else chr(ord(first) + steps)


def _hold_texts(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> bool:
    """Return True if every record has a text or a number in these columns."""
    cells = [plain_value(row.get(name)) for row in rows for name in columns]
    return not any(is_absent(cell) or isinstance(cell, (list, dict)) for cell in cells)


def are_lettered_lines(values: Sequence[object]) -> bool:
    """Return True if all are texts of lines that begin with A., B., …."""
    return bool(values) and all(
        isinstance(value, str) and letters_of_lines(value) >= 2 for value in values
    )


def letters_of_lines(text: str) -> int:
    """Return the number of lines of a text, if these begin with A., B., …; else 0."""
    lines = [line for line in text.split("\n") if line.strip()]
    letters = [match[1] if (match := LINE.match(line)) else "" for line in lines]
    return len(lines) if letters == list(ascii_uppercase[: len(lines)]) else 0


def letters_in(question: str) -> int:
    r"""Return how many options a question's text has, by their letters from A on.

    >>> letters_in("Which?\nA. the cat\nB. the dog"), letters_in("(A) or (B)?"), letters_in("A.")
    (2, 2, 0)
    """
    count = 0
    for match in MARK.finditer(question):
        count += match[1] == ascii_uppercase[min(count, 25)]
    return count if count > 1 else 0

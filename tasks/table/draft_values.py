"""Shared by the modules that guess a form of answers: their result, and lists of numbers."""

import re
from dataclasses import dataclass, field

Size = tuple[int, int] | None
TIMES = re.compile("time|window|interval|span|moment", re.IGNORECASE)
"""Names of fields that hold times; such a field has intervals even if no video is known."""


@dataclass(frozen=True)
class Truth:
    """A form of answer, and the keys of the description that go with it."""

    form: str
    keys: dict[str, object] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    """Text that says what to check, by the key."""
    protocol: str = ""
    """The protocol, where another than the form's default is meant."""
    letters: str = ""
    """Letters of the options that all questions' texts have."""


def rows_of(value: object) -> list[list[float]]:
    """Return a list of lists as it is, any other list as the only row, and else no rows."""
    if isinstance(value, list) and value and all(isinstance(row, list) for row in value):
        return value
    return [value] if isinstance(value, list) and value else []


def is_row(row: object, length: int) -> bool:
    """Return True for a list of `length` numbers."""
    return (
        isinstance(row, list)
        and len(row) == length
        and all(type(side) in (int, float) for side in row)
    )

"""Guess if values are numbers or counts, and doubt those that may be something else."""

import re
from collections.abc import Sequence

from harness.tasks.table.draft_text import first_of_thousands
from harness.tasks.table.draft_values import TIMES, Truth

ASKS_PERCENT = re.compile(r"percent|per cent|%|百分", re.IGNORECASE)
"""Words of questions whose answer is a number of hundredths."""
INDEX_FIELD = re.compile(
    r"(?:.*[_. ])?(?:label|class|category|idx|index|id|option|choice)", re.IGNORECASE
)
"""Names of fields of the number of a class or an option."""
CODE = re.compile(r"0\d+|\d+[eE]\d+")
"""A text that is a number, and may be a code: `007`, `3E5`."""


def truth_of_numbers(
    field: str, values: Sequence[object], questions: Sequence[str], *, has_semicolons: bool
) -> Truth | None:
    """Return numbers or counts, with the first doubt about them; None if not all are numbers.

    Args:
        field: Name of the field of the numbers.
        values: The field's values.
        questions: The texts of the questions.
        has_semicolons: True if the table's cells are between semicolons.
    """
    if not values or not all(map(_may_have_commas, values)):
        return None
    if doubt := _first_doubt(field, values, questions, has_semicolons=has_semicolons):
        return Truth("number", doubts={"form": doubt})
    is_count = _are_whole(values) and re.search("count|number", field, re.IGNORECASE)
    return Truth("count" if is_count else "number")


def _first_doubt(
    field: str, values: Sequence[object], questions: Sequence[str], *, has_semicolons: bool
) -> str:
    """Return the first reason to ask if numbers are meant as they are written; "" without one."""
    if not all(map(_is_number, values)):
        return "some have commas: write decimals with a point, and thousands without a mark"
    whole, numbers = _are_whole(values), [float(str(value)) for value in values]
    texts = (str(value).strip() for value in values if type(value) is not float)
    if code := next(filter(CODE.fullmatch, texts), ""):
        why = "begins with 0" if code[0] == "0" else "has an E"
        return f"{code!r} {why}: is it a number, or a text such as a code?"
    if whole and INDEX_FIELD.fullmatch(field):
        return "are they numbers of options or classes? Write their texts, or options"
    if -1 in numbers and any(number > 0 for number in numbers):
        return "may -1 stand for no answer? If so, remove the record"
    if TIMES.search(field):
        return f"is {field} the answer, or the time of a frame?"
    if first := first_of_thousands(values, questions, has_semicolons=has_semicolons):
        meant = f"does {first!r} mean {first.replace('.', '')}?"
        return f"{meant} It is read as {float(first)}: write thousands without a mark"
    are_parts = not whole and all(0 <= number <= 1 for number in numbers)
    if are_parts and all(map(ASKS_PERCENT.search, questions)):
        return "are they parts of 1? Questions ask for percent"
    return ""


def _are_whole(values: Sequence[object]) -> bool:
    """Return True if all numbers are whole."""
    return all(float(str(value)).is_integer() for value in values)


def _is_number(value: object) -> bool:
    """Return True for a number, or its text."""
    try:
        float(str(value))
    except ValueError:
        return False
    return not isinstance(value, bool) and "_" not in str(value)


def _may_have_commas(value: object) -> bool:
    """Return True for a number, or a text that is one but for its commas."""
    return _is_number(value) or bool(re.fullmatch(r"\s*[-+]?\d[\d.]*(?:,\d+)+\s*", str(value)))

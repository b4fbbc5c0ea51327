"""Read names of fields, and patterns of several fields in braces, such as `{folder}/{id}.jpg`."""

from string import Formatter

from harness.tasks.qa.questions import fill_pattern
from harness.tasks.table.cells import is_empty, without_marks
from harness.tasks.table.rows import Record


def pattern_of(text: str) -> str:
    """Return a field's name as a pattern; a pattern as it is."""
    return f"{{{text}}}" if text and "{" not in text else text


def names_in(pattern: str) -> list[str]:
    """Return the fields that a pattern names."""
    return [name for _, name, _, _ in Formatter().parse(pattern) if name]


def cell_of(row: Record, name: str, where: str) -> object:
    """Return a record's field, or of a pattern its text; None if a field of it is empty."""
    if "{" not in name or name in row:
        return without_marks(row[name])
    if any(is_empty(row[part]) for part in names_in(name)):
        return None
    return fill_pattern(name, row, where)

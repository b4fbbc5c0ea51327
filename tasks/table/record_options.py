"""Read a record's options, and the option that is right, by the description's convention."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.errors import DataError
from harness.tasks.table.cells import is_absent, is_empty, plain_value
from harness.tasks.table.conventions import by_marks, conventions_of, leave_one_out, letter_of
from harness.tasks.table.nested import at_path
from harness.tasks.table.rows import Record

MEMBER = re.compile(r"(?P<list>.+)\.(?P<place>\d+)(?:\.\D.*)?")
"""Field of a member of a list, or of a field of that: `options.0`, `options.0.text`."""
CHOICE_FORMS: Mapping[str, Literal["letter", "marked", "place", "option"]] = {
    "letter": "letter",
    "marked": "marked",
    "place": "place",
    "place_from_1": "place",
    "option": "option",
    "field": "place",
}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a description's questions."""

    fields: str | tuple[str, ...]
    """Field of the list of options, or one field for each."""
    written: str
    """Convention in which the right option is written."""

    @property
    def key(self) -> str:
        """Name for the list of options; messages show it."""
        fields = self.fields if isinstance(self.fields, str) else ", ".join(self.fields)
        return f"{fields} (options)"

    @property
    def form(self) -> Literal["letter", "marked", "place", "option"]:
        """Convention of what `choice` returns."""
        return CHOICE_FORMS.get(self.written, "letter")

    def of(self, row: Record, where: str) -> object:
        """Return the options as a list of texts, or a value that the reader refuses, as it is."""
        if isinstance(self.fields, str):
            value = plain_value(row[self.fields]) if self.fields else None
            if isinstance(value, dict):  # by letter: {"A": "left", "B": "right"}
                if self.written in ("letter", "place", "place_from_1") and leave_one_out(value):
                    raise DataError(
                        f"{where}: {self.fields!r}",
                        expected="options from A, 0 or 1 on, of which none is left out",
                        found=", ".join(map(str, value))[:60],
                    )
                value = by_marks(value)
            if isinstance(value, list):
                return [repr(text) if type(text) in (int, float) else text for text in value]
            return value
        values = [row.get(name) for name in self.fields]
        _refuse_more(row, self.fields, where)
        while values and is_absent(values[-1]):
            values.pop()
        if any(map(is_absent, values)):
            raise DataError(
                f"{where}: {', '.join(map(repr, self.fields))}",
                expected="options in the first fields, and none between them empty",
                found=repr(values)[:60],
            )
        return [value if isinstance(value, str) else repr(value) for value in values]

    def choice(self, value: object) -> object:
        """Return an answer in the convention of `CHOICE_FORMS` that its own one stands for."""
        if isinstance(value, str):
            value = value.strip()
        if self.written == "place_from_1":
            number = int(value) if isinstance(value, str) and value.isdecimal() else value
            return number - 1 if type(number) is int else value
        if self.written == "field" and not isinstance(self.fields, str) and value in self.fields:
            return self.fields.index(str(value))
        if self.written == "letter" and isinstance(value, str):
            return letter_of(value) or value
        is_number = type(value) in (int, float)
        return repr(value) if self.written == "option" and is_number else value

    def refuse_other_convention(self, value: object, options: object, where: str) -> None:
        """Raise DataError if an answer names an option in another convention than the stated."""
        if not isinstance(options, list) or is_empty(value):
            return
        columns = () if isinstance(self.fields, str) else self.fields
        fitting = conventions_of(str(value).strip(), [str(text) for text in options], columns)
        if fitting and self.written not in (*fitting, "marked"):
            ways = " or ".join(f'written = "{name}"' for name in fitting)
            raise DataError(
                where,
                expected=f"an option, written as {self.written!r}",
                found=repr(value)[:60],
                fix=f"If all answers are so, {ways} in the description reads them.",
            )


def refuse_equal(options: Sequence[str], where: str) -> None:
    """Raise DataError if two options of a question are equal but for blanks."""
    words = [" ".join(option.split()) for option in options]
    if equal := [word for word in words if words.count(word) > 1]:
        raise DataError(
            where,
            expected="options that differ",
            found=f"{equal[0]!r} {words.count(equal[0])} times"[:80],
            fix="Leave the cells of absent options empty, or such records out with `where`.",
        )


def _refuse_more(row: Record, options: Sequence[str], where: str) -> None:
    """Raise DataError if a list has more options than the fields that name its members."""
    places = [match for name in options if (match := MEMBER.fullmatch(name))]
    names = {match["list"] for match in places}
    if len(places) < len(options) or len(names) != 1 or len({m["place"] for m in places}) == 1:
        return
    (list_name,) = names
    listed = plain_value(next(iter(at_path(row, list_name)), None))
    if isinstance(listed, list) and len(listed) > len(options):
        raise DataError(
            f"{where}: {list_name!r}",
            expected=f"{len(options)} options at most, as the description names",
            found=str(len(listed)),
            fix="Name the fields of the others in the description, too.",
        )

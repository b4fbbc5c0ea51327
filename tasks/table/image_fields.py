"""Images of a record in several fields, such as `image_1` to `image_7`, of which records lack some.

An empty cell holds none; in JSON a field may also be left out.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from harness.errors import DataError, counted
from harness.tasks.table.cells import is_empty
from harness.tasks.table.draft_options import kept
from harness.tasks.table.layouts import LAYOUTS
from harness.tasks.table.nested import flat, jq_path
from harness.tasks.table.rows import file_columns

MAX_VALUES = 20
"""Most values of a field that `where` lists."""
MAX_LENGTH = 60
"""Most characters of one of these values."""
NUMBERED = re.compile(r"(.*?)\d+")
"""The name of a field that ends in a number: the part before it."""
Sides: TypeAlias = defaultdict[str, set[object]]
"""Values by field, of the records with an image or of those without."""
Parse: TypeAlias = Callable[[], Mapping[str, object]]


def found_in(rows: Iterable[tuple[str, Parse]], names: Collection[str]) -> tuple[str, ...]:
    """Return those of the fields that a row has; rows are parsed until all fields are found."""
    seen: set[str] = set()
    for _, parse in rows:
        with suppress(DataError):  # named where the records are read
            seen |= parse().keys() & {*names}
        if len(seen) == len({*names}):
            break
    return tuple(name for name in names if name in seen)


def numbered_beside(names: Collection[str], others: Iterable[str]) -> list[str]:
    """Return the other fields whose names differ from one of the fields by the last number alone.

    >>> numbered_beside(["image_1"], ["image_1", "image_2", "image_id", "box_2"])
    ['image_2']
    """
    stems = {stem for name in names if (stem := _stem(name)) is not None}
    return [name for name in others if name not in names and _stem(name) in stems]


def _stem(name: str) -> str | None:
    """Return a name without the number that it ends in; None if it ends in another character."""
    match = NUMBERED.fullmatch(name)
    return None if match is None else match[1]


def refuse_more_images(row: Mapping[str, object], names: Collection[str], where: str) -> None:
    """Raise DataError if a record has an image in a further field than those of the description."""
    others = [name for name in numbered_beside(names, row) if not is_empty(row[name])]
    if len(names) > 1 and others:
        raise DataError(
            where,
            expected=f"images in {', '.join(names)}"[:120],
            found=f"one in {others[0]!r}",
            fix="Name all such fields in `images` of the description.",
        )


def is_no_image(cell: object) -> bool:
    """Return True for a cell without an image: an empty one, or an empty list."""
    return is_empty(cell) or cell == []


def has_image(row: Mapping[str, object], fields: Sequence[Sequence[str]]) -> bool:
    """Return True if a record has an image; each image has one field or, in a pattern, several."""
    return any(not any(is_no_image(row.get(name)) for name in names) for names in fields)


def with_images(
    table: Path, layout: str, fields: Sequence[Sequence[str]], where: Mapping[str, object]
) -> tuple[dict[str, object], str]:
    """Return (values of `where` that keep the records with images, what to do about the others).

    The values are those of the field that divides all records so, and `where` itself; {} if no
    field does.

    Args:
        table: The table.
        layout: Its layout.
        fields: The fields of each image.
        where: The values of fields by which records are kept already.
    """
    of_images = {name for names in fields for name in names}
    n_of_field: Counter[str] = Counter()
    sides: tuple[Sides, Sides] = (defaultdict(set), defaultdict(set))
    n_rows = [0, 0]
    for _, parse in LAYOUTS[layout](table, (), file_columns(table)):
        with suppress(DataError):  # named where the records are read
            row = flat(parse())
            if not all(row.get(name) in as_list(value) for name, value in where.items()):
                continue
            side = has_image(row, fields)
            n_rows[side] += 1
            for name in (name for name in row if name not in of_images):
                value, values = row[name], sides[side][name]
                is_short = type(value) in (str, int, bool) and len(str(value)) <= MAX_LENGTH
                n_of_field[name] += is_short
                if is_short and len(values) <= MAX_VALUES:
                    values.add(value)
    without, having = sides
    if not n_rows[True]:
        return {}, "no record has one: `images` in [media] names other fields"
    left_out = counted(n_rows[False], "record")
    dividing = [
        name
        for name in n_of_field
        if n_of_field[name] == sum(n_rows)
        and len(having[name]) < n_rows[True]  # ids and questions differ everywhere
        and max(len(having[name]), len(without[name])) <= MAX_VALUES
        and not having[name] & without[name]
    ]
    if not dividing:
        return {}, f"{left_out} without one: {kept(table, _selecting(fields))}"
    name = min(dividing, key=lambda name: len(having[name]))
    chosen = {**where, name: sorted(having[name], key=str)}
    keys = (f"{json.dumps(key)} = {json.dumps(value)}" for key, value in chosen.items())
    return chosen, f"`where = {{ {', '.join(keys)} }}` in [question] leaves out {left_out}"


def _selecting(fields: Sequence[Sequence[str]]) -> str:
    """Return the jq program that selects the records with an image."""
    full = '(getpath(%s) | . != null and . != "" and . != [])'
    images = (" and ".join(full % jq_path(name) for name in names) for names in fields)
    return f"select({' or '.join(images)})"


def as_list(value: object) -> Sequence[object]:
    """Return a list as it is; any other value as the only member of one."""
    return value if isinstance(value, list) else [value]

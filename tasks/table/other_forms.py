"""Tables in other forms of JSON than a list of records, and the command that makes one of each."""

from pathlib import Path
from shlex import quote

from harness.errors import DataError
from harness.files import open_regular
from harness.layout import JsonFile

ROWS_OF_COLUMNS = ". as $t | [.[]][0] | keys_unsorted | map(. as $row | $t | map_values(.[$row]))"
"""jq's program for an object of columns, each an object by the number of the row."""
LABELME = (
    '[.[] | (.imagePath | split("/") | last | split("\\\\") | last) as $image | .shapes[] '
    "| (.points | map(.[0])) as $x | (.points | map(.[1])) as $y "
    '| {image: $image, question: .label, mask: [if .shape_type == "polygon" then (.points '
    '| flatten) elif .shape_type == "rectangle" then [($x | min), ($y | min), ($x | max), '
    '($y | min), ($x | max), ($y | max), ($x | min), ($y | max)] else error("a shape that is not '
    'a polygon") end]}]'
)
"""jq's program for annotations of labelme, an object an image, read with `-s`."""


def refuse_object(path: Path) -> None:
    """Raise DataError if a JSON file is an object, with the command that makes a list of it."""
    with open_regular(path) as file:
        if not file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            return
    table = JsonFile(path)
    keys = [key for key, _ in table.members()]
    command = f"jq {quote(_program(table, keys))} {quote(path.name)} > NEW.json"
    if {"imagePath", "shapes"} <= {*keys}:
        command = f"jq -s {quote(LABELME)} *.json > NEW.json"
    raise DataError(
        f"file {path}",
        expected="a list of records",
        found=f"an object with the keys {', '.join(keys[:5])}"[:120],
        fix=f"`{command}` makes one.",
    )


def _program(table: JsonFile, keys: list[str]) -> str:
    """Return jq's program that makes a list of records of an object with these keys."""
    values = [entry.text.lstrip()[:1] for entry in table.entries()]
    if lists := [key for key, mark in zip(keys, values, strict=True) if mark == "["]:
        return " + ".join(f'.["{key}"]' for key in lists)
    if "{" in values and set(values) == {"{"}:
        rows = [key for key, _ in JsonFile(table.path, (keys[0],)).members()]
        if rows and all(row.isdecimal() for row in rows):
            return ROWS_OF_COLUMNS
    return "[to_entries[] | {id: .key} + .value]"

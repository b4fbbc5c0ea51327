"""Output: a JSON value or lines of text, notes on standard error, files."""

import csv
import io
import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from harness.errors import CONTROL_CHARACTERS, one_line
from harness.store.atomic import write_bytes, writing


def say(*lines: object, to: TextIO | None = None) -> None:
    """Print lines, whatever a benchmark, a record or a plugin put into them: none is two lines.

    Args:
        lines: Texts without a line feed; one that they hold is spelled out.
        to: Standard output, unless another is given.
    """
    for line in lines:
        print(one_line(str(line)), file=to)


def show_json(value: object) -> None:
    """Print one JSON value in one line, control characters of terminals as their numbers."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    print(CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def tell(arguments: Namespace, value: object, *lines: object) -> None:
    """Print one JSON value if `--json` was given, else lines of text."""
    if arguments.json:
        show_json(value)
    else:
        say(*lines)


def note(text: str) -> None:
    """Print on standard error what the user should know."""
    say(f"note: {text}", to=sys.stderr)


def write_text(path: Path, text: str) -> None:
    """Write a file, and the folders above it; raise StoreError if that cannot be done."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text.encode())


def to_csv(rows: Sequence[Mapping[str, object]], delimiter: str = ",") -> str:
    """Return rows as CSV, with a column for each key of any row; with tabs all cells are quoted."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    dialect = csv.unix_dialect if delimiter == "\t" else csv.excel
    writer = csv.DictWriter(text, names, dialect=dialect, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()

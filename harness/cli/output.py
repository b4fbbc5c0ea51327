"""Output: a JSON value or lines of text, notes on standard error, files."""

import csv
import io
import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import printable
from harness.store.atomic import write_bytes, writing


def show_json(value: object) -> None:
    """Print one JSON value."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))


def tell(arguments: Namespace, value: object, *lines: object) -> None:
    """Print one JSON value if `--json` was given, else lines of text."""
    if arguments.json:
        show_json(value)
    else:
        print(*lines, sep="\n")


def note(text: str) -> None:
    """Print on standard error what the user should know."""
    print(printable(f"note: {text}"), file=sys.stderr)


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

"""Output for programs: one JSON value on standard output, or a file."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.store.atomic import cannot_write, write_bytes


def show_json(value: object) -> None:
    """Print one JSON value."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))


def write_text(path: Path, text: str) -> None:
    """Write a file, and the folders above it; raise StoreError if that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text.encode())
    except OSError as error:
        raise cannot_write(path, error) from error


def to_csv(rows: Sequence[Mapping[str, object]], delimiter: str = ",") -> str:
    """Return rows as CSV, with a column for each key of any row; with tabs all cells are quoted."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    dialect = csv.unix_dialect if delimiter == "\t" else csv.excel
    writer = csv.DictWriter(text, names, dialect=dialect, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()

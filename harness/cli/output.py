"""Output of all commands: one JSON value or lines of text, notes on standard error, and files.

Text of benchmarks, records and plugins may hold anything; nothing here lets it break a line or
control the terminal.
"""

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import TextIO

from harness.errors import CONTROL_CHARACTERS, one_line
from harness.store.atomic import write_bytes, writing


def say(*lines: object, to: TextIO | None = None) -> None:
    r"""Print each text on a line of its own.

    Args:
        lines: Texts; a line feed within one is printed as `\n`.
        to: The stream; None: standard output.
    """
    for line in lines:
        print(one_line(str(line)), file=to)


def show_json(value: object) -> None:
    """Print a JSON value on one line, with control characters of terminals as escapes."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    print(CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def tell(arguments: Namespace, value: object, *lines: object) -> None:
    """Print one JSON value if `--json` was given, else lines of text."""
    if arguments.json:
        show_json(value)
    else:
        say(*lines)


def note(text: str) -> None:
    """Print a note for the user on standard error."""
    say(f"note: {text}", to=sys.stderr)


def write_text(path: Path, text: str) -> None:
    """Write a file, and the folders above it; raise StoreError if that cannot be done."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text.encode())

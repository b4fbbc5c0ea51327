"""Output of all commands: one JSON value or lines of text, notes on standard error, and files.

Text of benchmarks, records and plugins may hold anything; nothing here lets it break a line or
control the terminal.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

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


def warn_unanswered(results_by_name: Mapping[str, Mapping[str, Any]]) -> bool:
    """Say on standard error whose results have no answer at all; return True if any have none."""
    from harness.summary import is_unanswered

    names = [name for name, results in results_by_name.items() if is_unanswered(results)]
    if names:
        say(f"exit code 1: no sample has an answer ({', '.join(names)})", to=sys.stderr)
    return bool(names)


def write_text(path: Path, text: str) -> None:
    """Write a file, and the folders above it; raise StoreError if that cannot be done."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text.encode())

"""Printing for programs: one JSON value on standard output."""

import json
from typing import Any


def show_json(value: Any) -> None:
    """Print one JSON value."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))

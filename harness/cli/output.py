"""Printing for programs: one JSON value on standard output."""

import json


def show_json(value: object) -> None:
    """Print one JSON value."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))

"""A TOML file with the same keys as the command line."""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from harness.errors import UsageError

PATHS = ("data", "out", "predictions")
LISTS = ("tasks", "model", "metrics")


def read_config(path: Path, *, known: Mapping[str, Any]) -> dict[str, Any]:
    """The file's values by argument name.

    Raises:
        UsageError: it is no TOML, or has a key that the command does not know.
    """
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"config {path}", expected="a TOML file", found=str(error)) from error
    values = {}
    for key, value in plain.items():
        name = key.replace("-", "_")
        if name not in known or name in ("function", "config"):
            near = [one.replace("_", "-") for one in get_close_matches(name, known, n=1)]
            raise UsageError(
                f"config {path}: {key!r}", expected="an option of this command",
                found="none of that name", fix=f"Did you mean {near[0]}?" if near else "",
            )  # fmt: skip
        values[name] = _converted(path, name, value, known[name])
    return values


def _converted(path: Path, name: str, value: Any, default: Any) -> Any:
    if name in LISTS:
        texts = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise UsageError(f"config {path}: {name!r}", expected="text or a list of texts",
                             found=repr(value))  # fmt: skip
        return texts
    if name in PATHS:
        if not isinstance(value, str):
            raise UsageError(f"config {path}: {name!r}", expected="a path", found=repr(value))
        return Path(value)
    if default is not None and type(value) is not type(default):
        raise UsageError(f"config {path}: {name!r}", expected=type(default).__name__,
                         found=repr(value))  # fmt: skip
    return value

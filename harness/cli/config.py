"""A TOML file with the same keys as the command line."""

import argparse
import math
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from harness.cli.arguments.shared import count, whole
from harness.errors import UsageError
from harness.files import read_text

OURS = ("help", "config", "shard")  # not to be set from a file
KINDS: Mapping[object, tuple[tuple[type, ...], str]] = {
    whole: ((int,), "a whole number"),
    count: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    Path: ((str,), "a path"),
}
"""Types in TOML by the type of an option, and their name; those of other options are texts."""


def read_config(path: Path, parser: argparse.ArgumentParser) -> dict[str, object]:
    """Return the file's values by argument name; raise UsageError for a key that is none."""
    known = {action.dest: action for action in parser._actions if action.dest not in OURS}
    values = {}
    for key, value in read_toml(path).items():
        name = key.replace("-", "_")
        if name not in known:
            near = [match.replace("_", "-") for match in get_close_matches(name, known, n=1)]
            raise UsageError(
                f"config {path}: {key!r}",
                expected="an option of this command",
                found="none of that name",
                fix=f"Did you mean {near[0]}?" if near else "",
            )
        values[name] = option_value(path, known[name], value)
    return values


def read_toml(path: Path) -> dict[str, Any]:
    """Read a configuration; raise UsageError if it is not TOML, or a number does not fit."""
    try:
        plain = tomllib.loads(read_text(path), parse_float=_real)
        _check_whole(plain)
        return plain
    except (OSError, ValueError, RecursionError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise UsageError(f"config {path}", expected="a TOML file", found=reason) from error


def _real(text: str) -> float:
    value = float(text)
    if math.isinf(value) and "inf" not in text:
        raise ValueError(f"{text[:40]}, which is too large")
    return value


def _check_whole(plain: object) -> None:
    """Raise ValueError for a whole number that 64 bits, which TOML has for it, do not hold."""
    if isinstance(plain, int) and plain.bit_length() > 63:
        raise ValueError("a whole number of more than 64 bits")
    for inner in (
        plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ()
    ):
        _check_whole(inner)


def option_value(path: Path, option: argparse.Action, value: object) -> object:
    """Return a value of the file as the option has it; raise UsageError for another type."""
    several = option.nargs in ("*", "+") or isinstance(option, argparse._AppendAction)
    kinds, wanted = KINDS.get(option.type, ((str,), "text"))
    if option.nargs == 0:
        kinds, wanted = (bool,), "true or false"
    given = value if several and isinstance(value, list) else [value]
    if any(type(item) not in kinds for item in given):
        raise UsageError(
            f"config {path}: {option.dest!r}",
            expected=f"{wanted} or a list of them" if several else wanted,
            found=repr(value)[:60],
        )
    values = [Path(str(item)) if option.type is Path else item for item in given]
    return values if several else values[0]

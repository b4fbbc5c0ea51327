"""`--config FILE`: a TOML file whose keys are options of the command, checked by its parser."""

import argparse
import math
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from harness.cli.arguments.shared import count, whole_number
from harness.errors import UsageError
from harness.files import read_text

NOT_IN_FILES = ("help", "config", "shard")  # options that a file cannot set
TOML_TYPES: Mapping[object, tuple[tuple[type, ...], str]] = {
    whole_number: ((int,), "a whole number"),
    count: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    Path: ((str,), "a path"),
}
"""Types in TOML, and their name in messages, by the type of an option; other options are texts."""


def read_config(path: Path, parser: argparse.ArgumentParser) -> dict[str, object]:
    """Return the file's values by argument name.

    Raises:
        UsageError: the file is not TOML, a key is not an option, or a value has another type.
    """
    options = {action.dest: action for action in parser._actions if action.dest not in NOT_IN_FILES}
    values = {}
    for key, value in read_toml(path).items():
        name = key.replace("-", "_")
        if name not in options:
            near = [match.replace("_", "-") for match in get_close_matches(name, options, n=1)]
            raise UsageError(
                f"config {path}: {key!r}",
                expected="an option of this command",
                found="none of that name",
                fix=f"Did you mean {near[0]}?" if near else "",
            )
        values[name] = option_value(path, options[name], value)
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
    """Parse a number with a point or exponent; raise ValueError if a float cannot hold it."""
    value = float(text)
    if math.isinf(value) and "inf" not in text:  # TOML has `inf` as a number
        raise ValueError(f"{text[:40]}, which is too large")
    return value


def _check_whole(plain: object) -> None:
    """Raise ValueError for a whole number, at any depth, that does not fit TOML's 64 bits."""
    if isinstance(plain, int) and plain.bit_length() > 63:
        raise ValueError("a whole number of more than 64 bits")
    if isinstance(plain, (dict, list)):
        for inner in plain.values() if isinstance(plain, dict) else plain:
            _check_whole(inner)


def option_value(path: Path, option: argparse.Action, value: object) -> object:
    """Return a value of the file in the type of the option, a list if it takes several.

    Raises:
        UsageError: the value has another type.
    """
    takes_several = option.nargs in ("*", "+") or isinstance(option, argparse._AppendAction)
    types, type_name = TOML_TYPES.get(option.type, ((str,), "text"))
    if option.nargs == 0:
        types, type_name = (bool,), "true or false"
    items = value if takes_several and isinstance(value, list) else [value]
    if any(type(item) not in types for item in items):
        raise UsageError(
            f"config {path}: {option.dest!r}",
            expected=f"{type_name} or a list of them" if takes_several else type_name,
            found=repr(value)[:60],
        )
    values = [Path(str(item)) if option.type is Path else item for item in items]
    return values if takes_several else values[0]

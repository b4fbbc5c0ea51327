"""A TOML file with the same keys as the command line."""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from harness.errors import UsageError
from harness.files import read_text

PATHS = ("data", "out", "predictions")
LISTS = ("tasks", "model", "metrics")
KINDS: Mapping[str, tuple[type, ...]] = {
    "batch_size": (int,),
    "subset": (str,),
    "name": (str,),
    "timeout": (int, float),
    "worker_gpus": (int, float),
    "worker_wait": (int, float),
    "judge": (str,),
    "submitit": (str,),
}
"""Types of options whose default is None, which has no type, and of numbers that may be whole."""
OURS = ("function", "config", "shard")  # not to be set from a file
NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def read_config(path: Path, *, known: Mapping[str, object]) -> dict[str, object]:
    """The file's values by argument name.

    Raises:
        UsageError: it is no TOML, or has a key that the command does not know.
    """
    try:
        plain = tomllib.loads(read_text(path))
    except OSError as error:
        raise UsageError(
            f"config {path}", expected="a TOML file", found=error.strerror or str(error)
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"config {path}", expected="a TOML file", found=str(error)) from error
    values = {}
    for key, value in plain.items():
        name = key.replace("-", "_")
        if name not in known or name in OURS:
            options = [one for one in known if one not in OURS]
            near = [one.replace("_", "-") for one in get_close_matches(name, options, n=1)]
            raise UsageError(
                f"config {path}: {key!r}",
                expected="an option of this command",
                found="none of that name",
                fix=f"Did you mean {near[0]}?" if near else "",
            )
        values[name] = _convert(path, name, value, known[name])
    return values


def _convert(path: Path, name: str, value: object, default: object) -> object:
    if name in LISTS:
        texts = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise UsageError(
                f"config {path}: {name!r}", expected="text or a list of texts", found=repr(value)
            )
        return texts
    if name in PATHS:
        if not isinstance(value, str):
            raise UsageError(f"config {path}: {name!r}", expected="a path", found=repr(value))
        return Path(value)
    if name == "runs":
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise UsageError(
                f"config {path}: {name!r}", expected="a list of paths", found=repr(value)
            )
        return [Path(text) for text in value]
    kinds = KINDS.get(name) or (() if default is None else (type(default),))
    if type(value) not in kinds:
        expected = " or ".join(NAMES.get(kind, kind.__name__) for kind in kinds)
        raise UsageError(
            f"config {path}: {name!r}",
            expected=expected or "another option",
            found=repr(value)[:60],
        )
    return value

"""Convert tables of a board's TOML file (`definitions`) to dataclasses: the fields are the keys."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def from_table(type_: type[T], plain: Mapping[str, Any], where: str) -> T:
    """Return a `type_` with the table's keys as fields, lists as tuples.

    Raises:
        ValueError: see `check_keys`; its text begins with `where`, such as `rows, number 2`.
    """
    check_keys(type_, plain, where)
    return type_(**{k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()})


def check_keys(type_: type[Any], plain: Mapping[str, Any], where: str) -> None:
    """Raise ValueError for an unknown or missing key, or a number or list in place of a text.

    `file` is not a key: the reader sets it.
    """
    keys = {key.name: key for key in fields(type_) if key.name != "file"}
    if unknown := [name for name in plain if name not in keys]:
        raise ValueError(f"{where}: unknown key {unknown[0]!r}; its keys are {', '.join(keys)}")
    for name, key in keys.items():
        if name not in plain and key.default is MISSING and key.default_factory is MISSING:
            raise ValueError(f"{where}: no {name}")
        if key.type is str and not isinstance(plain.get(name, ""), str):
            raise ValueError(f"{where}: {name} is {plain[name]!r}, not a text")

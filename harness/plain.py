"""Values as plain JSON data and back, by the annotations of their fields.

A dataclass is an object, in which fields with their defaults are left out; a tuple, named or not,
is a list. A class with `to_json` and `from_json` has a form of its own, such as run-lengths.
"""

import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar

from harness.responses import storable

T = TypeVar("T")
Read: TypeAlias = Callable[[Any], Any]

KINDS: Mapping[type, str] = {
    **{str: "text", bool: "true or false", int: "a whole number", float: "a number"},
    **{list: "a list", dict: "an object"},
}


def to_plain(value: Any) -> Any:
    """Return plain data of a value; text is made storable, nothing else is changed."""
    if isinstance(value, str):
        return storable(value)
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        given = ((one, getattr(value, one.name)) for one in fields(value))
        return {one.name: to_plain(held) for one, held in given if held != one.default}
    if isinstance(value, Iterable) and not isinstance(value, Mapping):
        return [to_plain(one) for one in value]
    return value


def from_plain(kind: type[T], plain: Any) -> T:
    """Return the value of a class that `to_plain` wrote, or that a person did in TOML.

    Raises:
        ValueError: it is something else; says which field is, and what was expected.
    """
    read: Callable[[Any], T] = _reader(kind)  # type: ignore[arg-type]  # a class can be hashed
    return read(plain)


@cache
def _reader(kind: Any) -> Read:
    """Return the function that reads values with this annotation."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        wanted = [one for one in parts if one is not type(None)]
        if len(wanted) > 1:
            return lambda plain: _typed(plain, tuple(wanted))
        inner = _reader(wanted[0])
        return lambda plain: None if plain is None else inner(plain)
    if origin in (tuple, frozenset):
        every, length = _reader(parts[0]), len(parts) if origin is tuple else None
        return lambda plain: origin(_items(plain, every, None if ... in parts else length))
    if origin in (Mapping, dict):
        value = _reader(parts[1])
        return lambda plain: {key: value(one) for key, one in _typed(plain, (dict,)).items()}
    if hasattr(kind, "from_json"):
        return typing.cast("Read", kind.from_json)
    if is_dataclass(kind) or typing.is_typeddict(kind):
        return _fields_reader(kind)
    if kind in (object, Any):
        return lambda plain: plain
    if issubclass(kind, tuple):
        return lambda plain: kind(*plain)
    if kind in (str, int, float, bool):
        known = (int, float) if kind is float else (kind,)
        return lambda plain: _typed(plain, known)
    return typing.cast("Read", kind)  # an enumeration


def _fields_reader(kind: Any) -> Read:
    readers = {name: _reader(hint) for name, hint in typing.get_type_hints(kind).items()}
    required: Set[str] = getattr(kind, "__required_keys__", None) or {
        one.name for one in fields(kind) if one.default is one.default_factory is MISSING
    }

    def read(plain: Any) -> Any:
        if lacking := required - _typed(plain, (dict,)).keys():
            raise ValueError(f"expected {', '.join(sorted(lacking))}, found none")
        if unknown := plain.keys() - readers.keys():
            raise ValueError(f"expected {', '.join(readers)}, found {', '.join(sorted(unknown))}")
        made = {}
        for name, value in plain.items():
            try:
                made[name] = readers[name](value)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{name}: {error}") from error
        return kind(**made)

    return read


def _items(plain: Any, read: Read, length: int | None) -> Iterator[Any]:
    if length not in (None, len(_typed(plain, (list,)))):
        raise ValueError(f"expected {length} of them, found {len(plain)}")
    return map(read, plain)


def _typed(plain: Any, kinds: tuple[type, ...]) -> Any:
    if type(plain) not in kinds:
        raise ValueError(
            f"expected {' or '.join(map(KINDS.__getitem__, kinds))}, found {plain!r:.60}"
        )
    return plain

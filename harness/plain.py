"""Values as plain JSON data and back, by the annotations of their fields.

A dataclass is an object, in which fields with their defaults are left out; a tuple, named or not,
is a list. A class with `to_json` and `from_json` has a form of its own, such as run-lengths.
"""

import types
import typing
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

from harness.responses import storable

T = TypeVar("T")
Convert: TypeAlias = Callable[[Any], Any]

MAX_BITS = 256
"""Largest number of bits of a whole number."""
KINDS: Mapping[type, str] = {
    **{str: "text", bool: "true or false", int: "a whole number", float: "a number"},
    **{list: "a list", dict: "an object"},
}


def to_plain(value: Any) -> Any:
    """Return plain data of a value; text is made storable, scalars of NumPy and torch numbers.

    Raises:
        ValueError: a field holds something else than its annotation says; says which.
    """
    return _codec(type(value)).write(value)  # type: ignore[arg-type]  # a class can be hashed


def unboxed(value: Any) -> Any:
    """Return the Python number or text in a scalar of NumPy or torch; any other value as it is."""
    if type(value) in KINDS or getattr(value, "ndim", None) != 0 or not hasattr(value, "item"):
        return value
    return value.item()


def json_scalar(value: object) -> object:
    """Return what JSON writes for a scalar of NumPy or torch: the `default` of `json.dumps`.

    Raises:
        TypeError: it is something else.
    """
    if (plain := unboxed(value)) is value:
        raise TypeError(f"expected plain data, found {type(value).__name__}: {value!r:.60}")
    return plain


def from_plain(kind: type[T], plain: Any) -> T:
    """Return the value of a class that `to_plain` wrote, or that a person did in TOML.

    Raises:
        ValueError: it is something else; says which field is, and what was expected.
    """
    value: T = _codec(kind).read(plain)  # type: ignore[arg-type]
    return value


def _same(value: Any) -> Any:
    return value


class _Codec(NamedTuple):
    read: Convert
    write: Convert


@cache
def _codec(kind: Any) -> _Codec:
    """Return the functions that read and write values with this annotation, made once for each."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        wanted = [part for part in parts if part is not type(None)]
        if len(wanted) > 1:
            readers = {_json_kind(part): _codec(part).read for part in wanted}
            return _Codec(
                lambda plain: readers[type(_typed(plain, tuple(readers)))](plain), to_plain
            )
        read, write = _codec(wanted[0])
        return _Codec(
            lambda plain: None if plain is None else read(plain),
            _same if write is _same else lambda value: None if value is None else write(value),
        )
    if origin is typing.Literal:
        return _Codec(lambda plain: _one_of(plain, parts), _same)
    if origin in (tuple, frozenset):
        read, write = _codec(parts[0])
        length = None if origin is frozenset or ... in parts else len(parts)
        return _Codec(lambda plain: origin(_items(plain, read, length)), _list_of(write))
    if origin in (Mapping, dict):
        read, _ = _codec(parts[1])
        return _Codec(
            lambda plain: {key: read(value) for key, value in _typed(plain, (dict,)).items()}, _same
        )
    if hasattr(kind, "from_json"):
        return _Codec(kind.from_json, kind.to_json)
    if is_dataclass(kind):
        return _Codec(_fields_reader(kind), _fields_writer(kind))
    if typing.is_typeddict(kind):
        return _Codec(_fields_reader(kind), _same)
    if kind in (object, Any):
        return _Codec(_same, to_plain)
    if issubclass(kind, (tuple, list)):  # a named tuple, such as a box
        hints = typing.get_type_hints(kind).values()
        flat = hints and all(_codec(hint).write is unboxed for hint in hints)
        read = kind if kind in (tuple, list) else lambda plain: kind(*plain)
        return _Codec(read, _list_of(unboxed if flat else to_plain))
    if kind in (str, int, float, bool):
        known = (int, float) if kind is float else (kind,)
        return _Codec(lambda plain: _typed(plain, known), storable if kind is str else unboxed)
    if issubclass(kind, Enum):
        return _Codec(kind, {member: member.value for member in kind}.__getitem__)
    return _Codec(kind, _same)


def _json_kind(kind: Any) -> Any:
    """Return the type that JSON or TOML has for values with an annotation."""
    origin = typing.get_origin(kind)
    return list if origin in (tuple, frozenset) else dict if origin is Mapping else kind


def _list_of(write: Convert) -> Convert:
    return list if write is _same else lambda value: [write(item) for item in value]


def _fields_writer(kind: Any) -> Convert:
    hints = typing.get_type_hints(kind)
    given = [(field.name, field.default, _codec(hints[field.name]).write) for field in fields(kind)]

    def write(value: Any) -> dict[str, Any]:
        plain = {}
        for name, default, convert in given:
            held = getattr(value, name)
            if held is not default and held != default:
                try:
                    plain[name] = convert(held)
                except (ValueError, TypeError, AttributeError) as error:
                    raise ValueError(f"{name}: found {held!r:.60}: {error}") from error
        return plain

    return write


def _fields_reader(kind: Any) -> Convert:
    readers = {name: _codec(hint).read for name, hint in typing.get_type_hints(kind).items()}
    required: Set[str] = getattr(kind, "__required_keys__", None) or {
        field.name for field in fields(kind) if field.default is field.default_factory is MISSING
    }

    def read(plain: Any) -> Any:
        if lacking := required - _typed(plain, (dict,)).keys():
            raise ValueError(f"expected {', '.join(sorted(lacking))}, found none")
        if unknown := plain.keys() - readers.keys():
            raise ValueError(f"expected {', '.join(readers)}, found {', '.join(sorted(unknown))}")
        values = {}
        for name, value in plain.items():
            try:
                values[name] = readers[name](value)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{name}: {error}") from error
        return kind(**values)

    return read


def _items(plain: Any, read: Convert, length: int | None) -> Iterator[Any]:
    if length not in (None, len(_typed(plain, (list,)))):
        raise ValueError(f"expected {length} of them, found {len(plain)}")
    return map(read, plain)


def _one_of(plain: Any, values: tuple[Any, ...]) -> Any:
    if not any(type(plain) is type(value) and plain == value for value in values):
        raise ValueError(f"expected {' or '.join(map(repr, values))}, found {plain!r:.60}")
    return plain


def _typed(plain: Any, kinds: tuple[type, ...]) -> Any:
    if (
        type(plain) is int and plain.bit_length() > MAX_BITS
    ):  # no float holds it, nor can it be shown
        raise ValueError(f"expected a number of at most {MAX_BITS} bits, found a larger one")
    if type(plain) not in kinds:
        raise ValueError(
            f"expected {' or '.join(map(KINDS.__getitem__, kinds))}, found {plain!r:.60}"
        )
    return plain

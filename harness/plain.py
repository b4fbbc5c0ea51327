"""Conversion of dataclasses to plain JSON data (`to_plain`) and back (`from_plain`).

The fields' annotations decide how: a dataclass becomes an object, in which fields with their
defaults are left out; a tuple, named or not, becomes a list; a class with `to_json` and
`from_json`, such as `Rle`, has its own form. Data that does not fit an annotation is a ValueError
that names the field. Used for journals and records, and to read cards, rubrics and settings in
TOML.
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
"""Largest number of bits of a whole number: larger ones do not fit a float and cannot be shown."""
TYPE_NAMES: Mapping[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}
"""Types of plain data, with their names in messages."""


def to_plain(value: Any) -> Any:
    """Return a value as plain data: text made `storable`, NumPy and torch scalars as numbers.

    Raises:
        ValueError: a field does not hold what its annotation says; the message names the field.
    """
    return _codec(type(value)).write(value)  # type: ignore[arg-type]  # a class can be hashed


def unboxed(value: Any) -> Any:
    """Return the Python number or text in a scalar of NumPy or torch; any other value as it is."""
    if type(value) in TYPE_NAMES or getattr(value, "ndim", None) != 0 or not hasattr(value, "item"):
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


def from_plain(class_: type[T], plain: Any) -> T:
    """Return the value of a class from data that `to_plain` wrote, or a person in TOML.

    Raises:
        ValueError: the data does not fit; the message names the field and what was expected.
    """
    return reader(class_)(plain)


def reader(class_: type[T]) -> Callable[[Any], T]:
    """Return the function that makes values of one class, as `from_plain` does for a single one."""
    return _codec(class_).read  # type: ignore[arg-type]


def _unchanged(value: Any) -> Any:
    return value


class _Codec(NamedTuple):
    """Functions from plain data to values with one annotation, and back."""

    read: Convert
    write: Convert


@cache
def _codec(annotation: Any) -> _Codec:
    """Return the functions for values with this annotation; they are made once for each."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        members = [part for part in parts if part is not type(None)]
        if len(members) > 1:  # such as `str | int`: the type of the JSON data says which
            readers = {_json_annotation(part): _codec(part).read for part in members}
            return _Codec(
                lambda plain: readers[type(_check_type(plain, tuple(readers)))](plain), to_plain
            )
        read, write = _codec(members[0])  # `X | None`

        def read_optional(plain: Any) -> Any:
            return None if plain is None else read(plain)

        def write_optional(value: Any) -> Any:
            return None if value is None else write(value)

        return _Codec(read_optional, _unchanged if write is _unchanged else write_optional)
    if origin is typing.Literal:
        return _Codec(lambda plain: _check_literal(plain, parts), _unchanged)
    if origin in (tuple, frozenset):
        read, write = _codec(parts[0])
        length = None if origin is frozenset or ... in parts else len(parts)
        return _Codec(lambda plain: origin(_items(plain, read, length)), _list_of(write))
    if origin in (Mapping, dict):
        read, _ = _codec(parts[1])
        return _Codec(
            lambda plain: {key: read(value) for key, value in _check_type(plain, (dict,)).items()},
            _unchanged,
        )
    if hasattr(annotation, "from_json"):
        return _Codec(annotation.from_json, annotation.to_json)
    if is_dataclass(annotation):
        return _Codec(_fields_reader(annotation), _fields_writer(annotation))
    if typing.is_typeddict(annotation):
        return _Codec(_fields_reader(annotation), _unchanged)
    if annotation in (object, Any):
        return _Codec(_unchanged, to_plain)
    if issubclass(annotation, (tuple, list)):  # a named tuple, such as a box
        hints = typing.get_type_hints(annotation).values()
        has_only_numbers = hints and all(_codec(hint).write is unboxed for hint in hints)
        read = annotation if annotation in (tuple, list) else lambda plain: annotation(*plain)
        return _Codec(read, _list_of(unboxed if has_only_numbers else to_plain))
    if annotation in (str, int, float, bool):
        expected = (int, float) if annotation is float else (annotation,)
        return _Codec(
            lambda plain: _check_type(plain, expected), storable if annotation is str else unboxed
        )
    if issubclass(annotation, Enum):
        return _Codec(annotation, {member: member.value for member in annotation}.__getitem__)
    return _Codec(annotation, _unchanged)


def _json_annotation(annotation: Any) -> Any:
    """Return the type that JSON or TOML has for values with an annotation."""
    origin = typing.get_origin(annotation)
    if origin in (tuple, frozenset):
        return list
    return dict if origin is Mapping else annotation


def _list_of(write: Convert) -> Convert:
    """Return the function that writes the items of a tuple or set by `write`, as a list."""
    return list if write is _unchanged else lambda value: [write(item) for item in value]


def _fields_writer(class_: Any) -> Convert:
    """Return the function that writes a dataclass: the fields that differ from their defaults."""
    hints = typing.get_type_hints(class_)
    writers = [
        (field.name, field.default, _codec(hints[field.name]).write) for field in fields(class_)
    ]

    def write(value: Any) -> dict[str, Any]:
        plain = {}
        for name, default, convert in writers:
            content = getattr(value, name)
            if content is not default and content != default:
                try:
                    plain[name] = convert(content)
                except (ValueError, TypeError, AttributeError) as error:
                    raise ValueError(f"{name}: found {content!r:.60}: {error}") from error
        return plain

    return write


def _fields_reader(class_: Any) -> Convert:
    """Return the function that reads a dataclass or TypedDict, and refuses fields it lacks."""
    readers = {name: _codec(hint).read for name, hint in typing.get_type_hints(class_).items()}
    if typing.is_typeddict(class_):
        required: Set[str] = class_.__required_keys__
    else:
        required = {
            field.name
            for field in fields(class_)
            if field.default is MISSING and field.default_factory is MISSING
        }

    def read(plain: Any) -> Any:
        if lacking := required - _check_type(plain, (dict,)).keys():
            raise ValueError(f"data that lacks {', '.join(sorted(lacking))}")
        if unknown := plain.keys() - readers.keys():
            raise ValueError(f"expected {', '.join(readers)}, found {', '.join(sorted(unknown))}")
        values = {}
        for name, value in plain.items():
            try:
                values[name] = readers[name](value)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{name}: {error}") from error
        return class_(**values)

    return read


def _items(plain: Any, read: Convert, length: int | None) -> Iterator[Any]:
    """Read the items of a list; raise ValueError unless it has `length` items, if not None."""
    if length not in (None, len(_check_type(plain, (list,)))):
        raise ValueError(f"expected {length} of them, found {len(plain)}")
    return map(read, plain)


def _check_literal(plain: Any, values: tuple[Any, ...]) -> Any:
    """Return the data; raise ValueError if it is not one of the values, of the same type."""
    if not any(type(plain) is type(value) and plain == value for value in values):
        raise ValueError(f"expected {' or '.join(map(repr, values))}, found {plain!r:.60}")
    return plain


def _check_type(plain: Any, kinds: tuple[type, ...]) -> Any:
    """Return the data; raise ValueError if its type is not one of `kinds`, keys of `TYPE_NAMES`."""
    if type(plain) is int and plain.bit_length() > MAX_BITS:
        raise ValueError(f"expected a number of at most {MAX_BITS} bits, found a larger one")
    if type(plain) not in kinds:
        raise ValueError(
            f"expected {' or '.join(map(TYPE_NAMES.__getitem__, kinds))}, found {plain!r:.60}"
        )
    return plain

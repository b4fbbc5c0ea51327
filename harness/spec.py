"""SPECs, which name plugins with arguments: `NAME`, `NAME(key=value, …)`, `NAME:key=value`.

`parse` turns the text of a command line or a record into a `Spec`, and `str` turns it back;
`convert` fits its values to a plugin's annotations, and `slug` makes it a folder's name.
A value is a number, `true`, `false`, `none`, a word, a path, quoted text, or again a SPEC.
`lmms:qwen2_5_vl` is short for `lmms(name=qwen2_5_vl)`.

>>> spec = parse("videoseg_r1(segmenter=sam2(size=tiny), frames=16)")
>>> spec.name, spec.arguments["frames"], str(spec.arguments["segmenter"])
('videoseg_r1', 16, 'sam2(size=tiny)')
>>> str(parse("lmms:qwen2_5_vl,device=cpu"))
'lmms(name=qwen2_5_vl,device=cpu)'
>>> [str(spec) for spec in parse_list("reason_seg(split=test,protocol=seg/visionreasoner),mevis")]
['reason_seg(split=test,protocol=seg/visionreasoner)', 'mevis']
>>> [str(spec) for spec in parse_list("reason_seg:split=test,seed=1,mevis")]
['reason_seg(split=test,seed=1)', 'mevis']
"""

import math
import os
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias, Union, get_args

from harness.errors import UsageError

Value: TypeAlias = Union[str, int, float, bool, "Spec", None]
Kind: TypeAlias = Literal[
    "tasks",
    "models",
    "trainers",
    "metrics",
    "backends",
    "segmenters",
    "propagators",
    "nodes",
    "judges",
    "text_sources",
    "rewards",
    "boards",
    "presets",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Kinds of plugins."""

NAME = re.compile(r"[A-Za-z_][\w.-]*\Z")  # qwen2_5-vl.7b
WHOLE = re.compile(r"[+-]?\d+\Z")  # -12
REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")  # 3, 0.5, .5, 1e-6
MAX_DIGITS = 18  # of a whole number, which 64 bits hold
WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "none": None}  # in any case
MAX_LENGTH = 10_000  # characters of a text
MAX_DEPTH = 20  # SPECs within SPECs: far from Python's limit of recursion
MAX_SLUG_BYTES = 50  # of a folder's name, which stands in the commands that are printed


@dataclass(frozen=True, slots=True)
class Spec:
    """A plugin's name and the arguments given for it."""

    name: str
    arguments: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        arguments = ",".join(f"{key}={_quoted(value)}" for key, value in self.arguments.items())
        return f"{self.name}({arguments})"

    def with_defaults(self, **defaults: Value) -> "Spec":
        """Return the same SPEC with `defaults` for the arguments that it does not have."""
        return Spec(self.name, {**defaults, **self.arguments})


def _quoted(value: Value) -> str:
    """Return a value's text, in quotes where `_value` would otherwise read another value."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        is_other_type = value.lower() in WORDS or REAL.match(value)
        if not value or is_other_type or re.search(r"[\s,()=\"']", value):
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def parse(text: str) -> Spec:
    """Read one SPEC; raise UsageError that shows where it is wrong."""
    specs = parse_list(text)
    if len(specs) != 1:
        raise UsageError(
            f"{text!r}", expected="one NAME or NAME(key=value, …)", found=f"{len(specs)} of them"
        )
    return specs[0]


def parse_list(text: str) -> list[Spec]:
    """Read SPECs separated by commas outside parentheses."""
    return [_spec(part, text, 0) for part in split_list(text)]


def split_list(text: str) -> list[str]:
    """Return the texts of SPECs separated by commas outside parentheses.

    After the short form `NAME:key=value`, further `key=value` belong to the same NAME.
    """
    if len(text) > MAX_LENGTH:
        raise UsageError(
            "the specification", expected=f"at most {MAX_LENGTH} characters", found=f"{len(text)}"
        )
    parts: list[str] = []
    for piece in _split_arguments(text, text):
        head = re.match(r"\s*([\w.-]+)\s*=", piece)
        if parts and head and ":" in _before_parenthesis(parts[-1]):
            parts[-1] += "," + piece
        else:
            parts.append(piece)
    return [part.strip() for part in parts]


def parse_values(text: str) -> list[Value]:
    """Read values separated by commas outside parentheses.

    >>> [str(value) for value in parse_values("4,fps(rate=2,max_frames=8),none")]
    ['4', 'fps(rate=2,max_frames=8)', 'None']
    """
    return [_value(piece.strip(), text, 1) for piece in _split_arguments(text, text)]


def _spec(text: str, full_text: str, depth: int) -> Spec:
    """Read one SPEC, which is `depth` levels deep in `full_text`, the text for messages."""
    if depth > MAX_DEPTH:
        raise UsageError(
            f"{full_text[:60]!r}", expected=f"at most {MAX_DEPTH} levels of nesting", found="more"
        )
    match = re.match(r"([^(:]*)([(:]?)", text)
    assert match is not None, "the pattern matches any text"
    name, opening = match[1].strip(), match[2]
    if not NAME.match(name):
        raise UsageError(
            f"{full_text!r}",
            expected="NAME, NAME(key=value, …) or NAME:key=value",
            found=f"{name!r} as a name",
        )
    inside = text[match.end() :]
    if opening == "(":
        if not inside.rstrip().endswith(")"):
            raise UsageError(
                f"{full_text!r}",
                expected=f"a closing parenthesis at the end of {name}(…)",
                found=repr(inside[-12:]),
            )
        inside = inside.rstrip()[:-1]
    if not inside.strip():
        return Spec(name)
    arguments: dict[str, Value] = {}
    for piece in _split_arguments(inside, full_text):
        key, equals, value = piece.partition("=")
        if opening == ":" and not equals and not arguments and NAME.match(key.strip()):
            key, equals, value = "name", "=", key
        key = key.strip()
        if not equals or not key.isidentifier():
            raise UsageError(
                f"{full_text!r}", expected=f"key=value inside {name}(…)", found=repr(piece.strip())
            )
        if key in arguments:
            raise UsageError(f"{full_text!r}", expected=f"{key} once", found="it twice")
        arguments[key] = _value(value.strip(), full_text, depth + 1)
    return Spec(name, arguments)


def _value(text: str, full_text: str, depth: int) -> Value:
    """Read what follows the `=` of an argument; see `_spec`."""
    if len(text) >= 2 and text[0] in "\"'" and text[-1] == text[0]:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if REAL.match(text):
        return _number(text, full_text)
    if "(" in text:
        return _spec(text, full_text, depth)
    return text


def _number(text: str, full_text: str) -> int | float:
    """Read a text that matches `REAL`; raise UsageError if 64 bits do not hold the number."""
    if WHOLE.match(text):
        if len(text.lstrip("+-")) <= MAX_DIGITS:
            return int(text)
        expected = f"a whole number of at most {MAX_DIGITS} digits"
    else:
        if math.isfinite(value := float(text)):
            return value
        expected = "a number that a float can hold"
    raise UsageError(
        f"{full_text[:200]!r}", expected=expected, found=text[:40], fix="In quotes it is a text."
    )


def _split_arguments(text: str, full_text: str) -> list[str]:
    """Split at commas outside parentheses and quotes; a quote begins only after `=` or `(`."""
    pieces, depth, quote, start = [], 0, "", 0
    escaped = False
    for index, char in enumerate(text):
        if quote:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == quote:
                quote = ""
        elif char in "\"'" and text[start:index].rstrip().endswith(("=", "(")):
            quote = char
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth < 0:
                break
        elif char == "," and depth == 0:
            pieces.append(text[start:index])
            start = index + 1
    if depth or quote:
        raise UsageError(
            f"{full_text!r}",
            expected="matching parentheses and quotes",
            found="one without its partner",
        )
    return [*pieces, text[start:]]


def _before_parenthesis(text: str) -> str:
    """Return the text before its first parenthesis."""
    return text.partition("(")[0]


def slug(text: str, *, hashed: bool = False) -> str:
    """Return a folder's name for a SPEC: readable, and different for different SPECs.

    `hashed`: append the hash also where the name is unique without it.

    >>> slug("lisa-mine"), slug("reason_seg(split=test,protocol=seg/lisa)@first8")
    ('lisa-mine', 'reason_seg-split=test,protocol=seg+lisa@first8')
    """
    # NAME(key=value)@subset becomes NAME-key=value@subset.
    plain = re.sub(r"\((\w+=.*)\)(?=@[^()]*\Z|\Z)", r"-\1", text).replace("/", "+")
    safe = re.sub(r"[^\w.,=+@-]", "_", plain).lstrip(".")
    # Another SPEC may give the same name: its `/` may be this one's `+`, its `(` this one's `-`.
    is_like_arguments = re.search("-.*=", text.partition("(")[0])
    is_ambiguous = safe != plain or "+" in text or is_like_arguments
    if hashed or is_ambiguous or len(os.fsencode(safe)) > MAX_SLUG_BYTES:
        digest = blake2b(os.fsencode(text), digest_size=4).hexdigest()
        return f"{os.fsencode(safe)[: MAX_SLUG_BYTES - 9].decode('utf-8', 'ignore')}-{digest}"
    return safe


def convert(value: Any, hint: object, what: str) -> object:
    """Return a SPEC's value as the type of a parameter's annotation.

    Of a union the first type that fits counts, text and paths last.

    Args:
        value: A `Value`.
        hint: The annotation: a type, a Literal, or a union of them.
        what: The argument, for messages, such as `sam2(size=…)`.

    Raises:
        UsageError: the value fits no type of the annotation.
    """
    options = get_args(hint) if _is_union(hint) else (hint,)
    if any(option is Any or isinstance(option, typing.TypeVar) for option in options):
        return value
    for option in options:
        if option is type(None) and value is None:
            return None
        if typing.get_origin(option) is Literal:
            if value in get_args(option):
                return value
            if value is None and "none" in get_args(option):
                return "none"  # the word, which a SPEC reads as the value
        if option is bool and isinstance(value, bool):
            return value
        if option is int and type(value) is int:
            return value
        if option is float and type(value) in (int, float):
            return float(value)
        if option is Spec and isinstance(value, (Spec, str)):
            return value if isinstance(value, Spec) else parse(value)
    for option in options:
        if option is str and not isinstance(value, Spec) and value is not None:
            return str(value)
        if option is Path and isinstance(value, str):
            return Path(value)
    expected = " or ".join(_type_name(option) for option in options)
    raise UsageError(
        what,
        expected=expected,
        found=repr(value) if not isinstance(value, Spec) else str(value),
        fix="For the word, write 'none' in quotes." if value is None and str in options else "",
    )


def _is_union(hint: object) -> bool:
    return isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union


def _type_name(option: Any) -> str:
    """Return an annotated type in words, for messages."""
    if typing.get_origin(option) is Literal:
        return " or ".join(map(repr, get_args(option)))
    names = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        Path: "a path",
        Spec: "a name or NAME(key=value, …)",
        type(None): "none",
    }
    return names.get(option, getattr(option, "__name__", str(option)))

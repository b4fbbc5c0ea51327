"""The one way to name a plugin with its arguments: `NAME`, `NAME(key=value, …)`, `NAME:key=value`.

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, TypeAlias, Union, get_args

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

NAME = re.compile(r"[A-Za-z_][\w.-]*\Z")
WHOLE = re.compile(r"[+-]?\d+\Z")
REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
MAX_WHOLE = 18  # digits of a whole number, which 64 bits hold
WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "none": None}
MAX_LENGTH = 10_000
MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Spec:
    """A plugin's name and the arguments given for it."""

    name: str
    arguments: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        given = ",".join(f"{key}={_show(value)}" for key, value in self.arguments.items())
        return f"{self.name}({given})"

    def with_defaults(self, **defaults: Value) -> "Spec":
        """Return the same spec with further arguments, for names without a value."""
        return Spec(self.name, {**defaults, **self.arguments})


def _show(value: Value) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and (
        not value or re.search(r"[\s,()=\"']", value) or value.lower() in WORDS or REAL.match(value)
    ):
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
    """Read SPECs separated by commas outside parentheses.

    After the short form `NAME:key=value`, further `key=value` belong to the same NAME.
    """
    if len(text) > MAX_LENGTH:
        raise UsageError(
            "the specification", expected=f"at most {MAX_LENGTH} characters", found=f"{len(text)}"
        )
    groups: list[str] = []
    for piece in _split_arguments(text, text):
        head = re.match(r"\s*([\w.-]+)\s*=", piece)
        if groups and head and ":" in _before_parenthesis(groups[-1]):
            groups[-1] += "," + piece
        else:
            groups.append(piece)
    return [_spec(group.strip(), text, 0) for group in groups]


def parse_values(text: str) -> list[Value]:
    """Read values separated by commas outside parentheses.

    >>> [str(value) for value in parse_values("4,fps(rate=2,max_frames=8),none")]
    ['4', 'fps(rate=2,max_frames=8)', 'None']
    """
    return [_value(piece.strip(), text, 1) for piece in _split_arguments(text, text)]


def _spec(text: str, whole: str, depth: int) -> Spec:
    if depth > MAX_DEPTH:
        raise UsageError(
            f"{whole[:60]!r}", expected=f"at most {MAX_DEPTH} levels of nesting", found="more"
        )
    match = re.match(r"([^(:]*)([(:]?)", text)
    assert match is not None, "the pattern matches any text"
    name, opening = match[1].strip(), match[2]
    if not NAME.match(name):
        raise UsageError(
            f"{whole!r}",
            expected="NAME, NAME(key=value, …) or NAME:key=value",
            found=f"{name!r} as a name",
        )
    inside = text[match.end() :]
    if opening == "(":
        if not inside.rstrip().endswith(")"):
            raise UsageError(
                f"{whole!r}",
                expected=f"a closing parenthesis at the end of {name}(…)",
                found=repr(inside[-12:]),
            )
        inside = inside.rstrip()[:-1]
    if not inside.strip():
        return Spec(name)
    arguments: dict[str, Value] = {}
    for piece in _split_arguments(inside, whole):
        key, equals, value = piece.partition("=")
        if opening == ":" and not equals and not arguments and NAME.match(key.strip()):
            key, equals, value = "name", "=", key
        key = key.strip()
        if not equals or not key.isidentifier():
            raise UsageError(
                f"{whole!r}", expected=f"key=value inside {name}(…)", found=repr(piece.strip())
            )
        if key in arguments:
            raise UsageError(f"{whole!r}", expected=f"{key} once", found="it twice")
        arguments[key] = _value(value.strip(), whole, depth + 1)
    return Spec(name, arguments)


def _value(text: str, whole: str, depth: int) -> Value:
    if len(text) >= 2 and text[0] in "\"'" and text[-1] == text[0]:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if REAL.match(text):
        return _number(text, whole)
    if "(" in text:
        return _spec(text, whole, depth)
    return text


def _number(text: str, whole: str) -> int | float:
    if not WHOLE.match(text):
        expected = "a number that a float can hold"
        if math.isfinite(value := float(text)):
            return value
    else:
        expected = f"a whole number of at most {MAX_WHOLE} digits"
        if len(text.lstrip("+-")) <= MAX_WHOLE:
            return int(text)
    raise UsageError(
        f"{whole[:200]!r}", expected=expected, found=text[:40], fix="In quotes it is a text."
    )


def _split_arguments(text: str, whole: str) -> list[str]:
    """Split at commas outside parentheses and quotes."""
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
            f"{whole!r}",
            expected="matching parentheses and quotes",
            found="one without its partner",
        )
    return [*pieces, text[start:]]


def _before_parenthesis(text: str) -> str:
    """The text before its first parenthesis."""
    return text.partition("(")[0]


LONGEST = 50
"""Bytes of a folder's name, which stands in the commands that are printed."""


def slug(text: str) -> str:
    """A folder's name for a SPEC: readable, and different for different SPECs.

    >>> slug("saliency"), slug("reason_seg(split=test,protocol=seg/lisa)@first8")
    ('saliency', 'reason_seg-split=test,protocol=seg+lisa@first8')
    """
    plain = re.sub(r"\((.*)\)(?=@[^()]*\Z|\Z)", r"-\1", text).replace("/", "+")
    safe = re.sub(r"[^\w.,=+@-]", "_", plain).lstrip(".")
    size = len(os.fsencode(safe))
    if safe != plain or size > LONGEST or "+" in text or "-" in text.partition("(")[0]:
        digest = blake2b(os.fsencode(text), digest_size=4).hexdigest()
        return f"{os.fsencode(safe)[: LONGEST - 9].decode('utf-8', 'ignore')}-{digest}"
    return safe

"""Parsing of models' responses: tags and JSON, within limits, never raising but ParseError.

Strict reading follows the official parsers; `loads_lenient` adds the repairs that inference may
use (and must report), so that a reward can stay strict where a prediction is kind.
"""

import json
import re
from collections import Counter
from typing import NoReturn

from harness.errors import ParseError

MAX_TEXT = 200_000  # characters of a response that are looked at
MAX_DEPTH = 64
MAX_DIGITS = 64
DIGITS = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")


def tag_text(response: str, tag: str) -> str | None:
    """The stripped text of the first `<tag>…</tag>`, or None. The first match always wins.

    >>> tag_text("<answer> 1 </answer><answer>2</answer>", "answer")
    '1'
    """
    return _text_between(response[:MAX_TEXT], f"<{tag}>", f"</{tag}>")


def _text_between(text: str, opening: str, closing: str) -> str | None:
    """Return the text between two marks, stripped; None without them.

    Found by search: a regular expression that strips takes cubic time on blanks after a mark that
    is never closed.
    """
    start = text.find(opening)
    if start < 0:
        return None
    start += len(opening)
    end = text.find(closing, start)
    return None if end < 0 else text[start:end].strip()


def loads_strict(text: str, limit: int = MAX_TEXT) -> object:
    """Parse JSON: no NaN, no duplicate keys, no trailing text, bounded depth and size.

    Args:
        text: One value.
        limit: Characters of it at most.

    >>> loads_strict('[{"bbox_2d": [1, 2, 3, 4]}]')
    [{'bbox_2d': [1, 2, 3, 4]}]
    """
    if len(text) > limit:
        raise ParseError("JSON", expected=f"at most {limit} characters", found=str(len(text)))
    if DIGITS.search(text):
        raise ParseError(
            "JSON", expected=f"numbers of at most {MAX_DIGITS} digits", found="a longer one"
        )
    if nesting(text) > MAX_DEPTH:
        raise ParseError("JSON", expected=f"at most {MAX_DEPTH} levels", found="more")
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ParseError("JSON", expected="one JSON value", found=str(error)) from error


def loads_lenient(text: str) -> tuple[object, tuple[str, ...]]:
    r"""Parse JSON, with known repairs; return the value and the repairs that were made.

    Repairs, each only if strict reading fails: a ```json fence is removed, trailing commas are
    dropped, single quotes become double ones, `\_` becomes `_`.

    >>> loads_lenient("[{'bbox_2d': [1, 2, 3, 4],}]")
    ([{'bbox_2d': [1, 2, 3, 4]}], ('trailing comma', 'single quotes'))
    """
    notes: list[str] = []
    first: ParseError | None = None
    for repair, note in ((None, ""), *REPAIRS):
        if repair is not None:
            mended = repair(text)
            if mended == text:
                continue
            text = mended
            notes.append(note)
        try:
            return loads_strict(text), tuple(notes)
        except ParseError as error:
            first = first or error
    assert first is not None, "the loop parses at least once"
    raise first


def _unfence(text: str) -> str:
    inside = _text_between(text, "```", "```")
    return text if inside is None else inside.removeprefix("json").strip()


REPAIRS = (
    (_unfence, "code fence"),
    (lambda text: text.replace("\\_", "_"), "escaped underscore"),
    (lambda text: re.sub(r",\s*([\]}])", r"\1", text), "trailing comma"),
    (lambda text: text.replace("'", '"') if '"' not in text else text, "single quotes"),
)


def nesting(text: str) -> int:
    """The deepest level of brackets outside strings."""
    depth = deepest = 0
    inside = escaped = False
    for char in text:
        if inside:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                inside = False
        elif char == '"':
            inside = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def finite_numbers(value: object, length: int, what: str) -> tuple[float, ...]:
    """`value` as a tuple of `length` finite numbers; bool and text are no numbers.

    >>> finite_numbers([1, 2.5], 2, "point")
    (1.0, 2.5)
    """
    if (
        not isinstance(value, (list, tuple))
        or len(value) != length
        or not all(type(item) in (int, float) and abs(item) < 1e9 for item in value)
    ):
        raise ParseError(what, expected=f"{length} finite numbers", found=excerpt(value))
    return tuple(float(item) for item in value)


def excerpt(value: object, limit: int = 60) -> str:
    """Return the start of a value's text, for an error; its type where it cannot be written.

    Python refuses to write out integers of thousands of digits, which a literal can hold.

    >>> excerpt([1, 2]), excerpt(1 << 20_000)
    ('[1, 2]', 'int')
    """
    try:
        return repr(value)[:limit]
    except ValueError:
        return type(value).__name__


def storable(text: str, limit: int = MAX_TEXT) -> str:
    """Text that survives JSON and a terminal: lone surrogates and NUL replaced, length bounded."""
    clean = text[:limit].encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")
    return clean if len(text) <= limit else clean + f"… [{len(text) - limit} characters cut]"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The dictionary of an object in JSON; ValueError if a key occurs twice in it."""
    plain = dict(pairs)
    if len(plain) != len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {key[:40]!r} twice")
    return plain

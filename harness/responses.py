"""Reading of untrusted text, such as responses, within limits: JSON, tags, numbers; storable text.

Grammars, readers and rewards call it. `loads_strict` accepts plain JSON; `loads_lenient` repairs
known faults of models first and reports the repairs. Both raise only ParseError, whatever the text.
Rewards that repeat official code, which accepts NaN and duplicate keys, call `json.loads` within
the same limits.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NoReturn, TypeAlias

from harness.errors import ParseError

MAX_TEXT = 200_000
"""Characters of a response that are read: longer than any budget of tokens, quick to parse."""
MAX_DEPTH = 64
"""Levels of brackets: far from the recursion limit of Python's parsers."""
MAX_DIGITS = 64
"""Digits of a number: reading takes quadratic time, and float() fails for an int of 400 digits."""
TOO_MANY_DIGITS = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
MAX_NUMBER = 1e9
"""Bound of numbers of a response: no coordinate, size or time comes near it, and whatever rounds
one to 32 bits does not overflow."""


Which: TypeAlias = Literal["first", "last"]
"""The one of several answers that counts."""


OTHER_NUMBER = re.compile(r"expected \d+ responses, found \d+")
"""Failure of a question for which there are too few or too many responses: none of them counts."""


def tag_text(response: str, tag: str, *, which: Which = "first") -> str | None:
    """Return the stripped text of the first or last `<tag>…</tag>`; None: there is none.

    >>> tag_text("<answer> 1 </answer><answer>2</answer>", "answer")
    '1'
    """
    text, opening, closing = response[:MAX_TEXT], f"<{tag}>", f"</{tag}>"
    if which == "last":
        text = text[max(0, text.rfind(opening, 0, max(0, text.rfind(closing)))) :]
    return _text_between(text, opening, closing)


def _text_between(text: str, opening: str, closing: str) -> str | None:
    """Return the text between two marks, stripped; None without them.

    Not by a regular expression: one that strips blanks takes cubic time on many blanks after a mark
    that is never closed.
    """
    start = text.find(opening)
    if start < 0:
        return None
    start += len(opening)
    end = text.find(closing, start)
    return None if end < 0 else text[start:end].strip()


def loads_strict(text: str, limit: int = MAX_TEXT) -> object:
    """Parse JSON: no NaN, no infinity, no duplicate keys, no trailing text, bounded depth, size.

    A run of more than MAX_DIGITS digits is refused wherever it stands, also in a string.

    Args:
        text: One value.
        limit: Largest number of its characters.

    >>> loads_strict('[{"bbox_2d": [1, 2, 3, 4]}]')
    [{'bbox_2d': [1, 2, 3, 4]}]
    """
    if len(text) > limit:
        raise ParseError("JSON", expected=f"at most {limit} characters", found=str(len(text)))
    if TOO_MANY_DIGITS.search(text):
        raise ParseError("JSON", expected=f"at most {MAX_DIGITS} digits in a row", found="more")
    if nesting_depth(text) > MAX_DEPTH:
        raise ParseError("JSON", expected=f"at most {MAX_DEPTH} levels", found="more")
    try:
        return json.loads(text, **STRICT)
    except (ValueError, RecursionError) as error:
        raise ParseError("JSON", expected="one JSON value", found=str(error)) from error


def loads_lenient(text: str) -> tuple[object, tuple[str, ...]]:
    r"""Parse JSON, with known repairs; return the value and the repairs that were made.

    Repairs, one after another until the text parses: the text of a ```json fence, `_` for `\_`,
    no commas before a closing bracket, straight quotes for curly ones, double quotes for single
    ones (in a text without double ones), quotes around keys, brackets for the parentheses of
    numbers.

    Raises:
        ParseError: no repair helps; it is the error of the text as it was.

    >>> loads_lenient("[{'bbox_2d': [1, 2, 3, 4],}]")
    ([{'bbox_2d': [1, 2, 3, 4]}], ('trailing comma', 'single quotes'))
    """
    try:
        return loads_strict(text), ()
    except ParseError as error:
        unrepaired = error
    notes: list[str] = []
    for repair, note in REPAIRS:
        repaired = repair(text)
        if repaired == text:
            continue
        text = repaired
        notes.append(note)
        with suppress(ParseError):
            return loads_strict(text), tuple(notes)
    raise unrepaired


CURLY = str.maketrans("“”„‘’", '"""\'\'')


def _unfence(text: str) -> str:
    inside = _text_between(text, "```", "```")
    return text if inside is None else inside.removeprefix("json").strip()


REPAIRS: Sequence[tuple[Callable[[str], str], str]] = (
    (_unfence, "code fence"),
    (lambda text: text.replace("\\_", "_"), "escaped underscore"),
    (lambda text: re.sub(r",\s*([\]}])", r"\1", text), "trailing comma"),
    (lambda text: text.translate(CURLY), "curly quotes"),
    (lambda text: text.replace("'", '"') if '"' not in text else text, "single quotes"),
    # {bbox: 1} to {"bbox": 1}
    (lambda text: re.sub(r"(?<=[{,])(\s*)([A-Za-z_]\w*)(?=\s*:)", r'\1"\2"', text), "bare keys"),
    # (1, 2.5) to [1, 2.5]
    (lambda text: re.sub(r"\(([-+.,\s\d]*)\)", r"[\1]", text), "parentheses"),
)
"""Functions that return the repaired text, each with its name in notes."""


def nesting_depth(text: str) -> int:
    """Return the deepest level of brackets outside strings."""
    depth = deepest = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def finite_numbers(value: Any, length: int, what: str) -> tuple[float, ...]:
    """Return `value` as a tuple of `length` numbers below MAX_NUMBER; refuse bool and text.

    Raises:
        ParseError: it is anything else.

    >>> finite_numbers([1, 2.5], 2, "point")
    (1.0, 2.5)
    """
    if (
        not isinstance(value, (list, tuple))
        or len(value) != length
        or not all(type(item) in (int, float) and abs(item) < MAX_NUMBER for item in value)
    ):
        raise ParseError(
            what,
            expected=f"{length} finite numbers, each below {MAX_NUMBER:g}",
            found=excerpt(value),
        )
    return tuple(float(item) for item in value)


def excerpt(value: object) -> str:
    """Return the start of a value's text, for an error; its type where it cannot be written.

    Python refuses to write out integers of thousands of digits, which a literal can hold.

    >>> excerpt([1, 2]), excerpt(1 << 20_000)
    ('[1, 2]', 'int')
    """
    try:
        return repr(value)[:60]
    except ValueError:
        return type(value).__name__


def storable(text: str, limit: int = MAX_TEXT) -> str:
    """Return text that UTF-8 and JSON can hold, of at most `limit` characters.

    Lone surrogates become `?`, NUL becomes U+FFFD; a longer text ends with the number of characters
    that were cut. Storable text is left as it is, so that storing it twice changes nothing.
    Control characters of terminals stay: see `harness.errors.printable`.

    Args:
        text: Any text.
        limit: At least 60, so that the note of a cut fits.

    >>> storable("a" * 100, 60)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… [62 characters cut]'
    """
    if len(text) <= limit and text.isascii() and "\x00" not in text:
        return text
    cut = max(0, len(text) - limit)
    if cut:
        cut += len(f"… [{len(text)} characters cut]")
    clean = text[: len(text) - cut].encode("utf-8", "replace").decode("utf-8")
    clean = clean.replace("\x00", "\ufffd")
    return f"{clean}… [{cut} characters cut]" if cut else clean


def _refuse_constant(constant: str) -> NoReturn:
    """Raise ValueError for NaN or Infinity: the `parse_constant` of `json.loads`."""
    raise ValueError(f"{constant} is not JSON")


def _read_integer(digits: str) -> int:
    """Return a whole number; raise ValueError if it has more than MAX_DIGITS digits."""
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits, more than {MAX_DIGITS}")
    return int(digits)


def _read_float(number: str) -> float:
    """Return a number; raise ValueError if a float does not hold it."""
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{number[:40]} is too large for a number")
    return value


def refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dictionary of a JSON object, as an `object_pairs_hook`.

    Raises:
        ValueError: a key occurs twice.
    """
    plain = dict(pairs)
    if len(plain) != len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {key[:40]!r} twice")
    return plain


NUMBERS: Mapping[str, Any] = {"parse_int": _read_integer, "parse_float": _read_float}
"""Arguments of `json.loads` by which a number that no float holds raises ValueError."""
STRICT: Mapping[str, Any] = {
    **NUMBERS,
    "parse_constant": _refuse_constant,
    "object_pairs_hook": refuse_duplicate_keys,
}
"""Arguments by which NaN, infinity and a key that comes twice raise ValueError as well."""

"""Remove an API key from a server's answers and errors, however its characters are spelled there.

The `openai` backend applies it before anything is shown or recorded.
"""

import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

MIN_KEY_LENGTH = 8  # a shorter key is not treated as a secret
HIDDEN = "***"  # replaces the key
SEPARATORS = bytes(set(range(256)) - set((string.ascii_letters + string.digits).encode()))
"""All bytes that are not ASCII letters or digits."""
TO_LOWER_CASE = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
IS_ALPHANUMERIC = np.array([number not in SEPARATORS for number in range(256)])
"""True at each byte that is an ASCII letter or digit."""
ESCAPE = re.compile(
    rb"(?<!\\)\\+(?:u00|x)([0-9a-f]{2})|%([0-9a-f]{2})|&#(?:0*([0-9]{2,3})|x0*([0-9a-f]{2}));", re.I
)
r"""Matches an escaped character: "\u0061" and "\x61" (JSON, Python), "%61" (addresses), "&#97;" and
"&#x61;" (HTML)."""


def redact_key(text: str, key: str | None) -> str:
    r"""Return a server's text without the key, its halves, or spellings of its characters.

    Any part of the key that has about half of its characters is replaced by `***`. Only letters and
    digits are compared, in either case; other characters may stand between them. The time is linear
    in text and key.

    A key of fewer than eight characters is not a secret: only the key itself is replaced, and only
    in texts that are shown.

    >>> redact_key(r"a abcd efgh \u0061bcdefgh 61-abcdefg", "abcdefgh")
    'a *** *** 61-***'
    """
    if key is None:
        return text
    letters = key.lower().encode().translate(None, SEPARATORS)
    if len(letters) < MIN_KEY_LENGTH:
        return text.replace(key, HIDDEN)
    # The shortest part that is hidden: half of the key's characters, minus those that are not
    # letters or digits.
    least = max(MIN_KEY_LENGTH - 1, (len(key) + 1) // 2 - (len(key) - len(letters)))
    if len(text) < least:
        return text
    raw = text.encode("utf-8", "surrogatepass")
    unescaped = ESCAPE.sub(_unescaped_in_place, raw)
    if unescaped != raw:
        raw = _without(
            raw, unescaped, _spans(unescaped.translate(TO_LOWER_CASE, SEPARATORS), letters, least)
        )
    raw = _without(raw, raw, _spans(raw.translate(TO_LOWER_CASE, SEPARATORS), letters, least))
    return raw.decode("utf-8", "surrogatepass")


def _spans(text: bytes, key: bytes, least: int) -> list[tuple[int, int]]:
    """Return the (start, end) of all parts of a text that equal a part of the key.

    Such a part has at least `least` letters. It contains one of a few disjoint blocks of the key;
    each occurrence of a block is extended to both sides.

    Args:
        text: Letters and digits of the text, in lower case.
        key: Letters and digits of the key, in lower case.
        least: Smallest length of a part.
    """
    size, spans = (least + 1) // 2, []
    for offset in range(0, len(key) - size + 1, size):
        block = key[offset : offset + size]
        position = text.find(block)
        while position >= 0:
            before = text[max(0, position - offset) : position]
            start = position - _common_length(before[::-1], key[:offset][::-1])
            end = position + _common_length(
                text[position : position + len(key) - offset], key[offset:]
            )
            is_span = end - start >= least
            if is_span:
                spans.append((start, end))
            position = text.find(block, end if is_span else position + 1)
    return sorted(spans)


def without_key(plain: object, key: str | None) -> Any:
    """Return plain data without the key in texts, unless it is shorter than `MIN_KEY_LENGTH`."""
    if key is None or len(key) < MIN_KEY_LENGTH:
        return plain
    if isinstance(plain, str):
        return redact_key(plain, key)
    if isinstance(plain, list):
        return [without_key(item, key) for item in plain]
    if isinstance(plain, dict):
        return {redact_key(name, key): without_key(value, key) for name, value in plain.items()}
    return plain


def _common_length(first: bytes, second: bytes) -> int:
    """Return the length of the longest common beginning, by bisection."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    return low


def _unescaped_in_place(escape: re.Match[bytes]) -> bytes:
    r"""Return an escaped character, padded with zeros to the length of its escape.

    For example `a\0\0` for `%61`, so that positions stay the same.
    """
    decimal, hexadecimal = escape[3], escape[1] or escape[2] or escape[4]
    number = int(decimal) if decimal else int(hexadecimal, 16)
    return bytes([number if number < 128 else 0]).ljust(len(escape[0]), b"\0")


def _without(raw: bytes, unescaped: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    """Return `raw` with spans replaced by `***`.

    Args:
        raw: The text.
        unescaped: The same text with escapes replaced, of equal length (see `_unescaped_in_place`).
        spans: (start, end) among the letters and digits of `unescaped`, sorted.
    """
    if not spans:
        return raw
    positions = np.flatnonzero(IS_ALPHANUMERIC[np.frombuffer(unescaped, np.uint8)])
    parts, done = [], 0
    for start, end in spans:
        first, last = int(positions[start]), int(positions[end - 1]) + 1
        while unescaped[last : last + 1] == b"\0":  # the padding of an escape
            last += 1
        if first >= done:
            parts += [raw[done:first], HIDDEN.encode()]
        done = max(done, last)
    return b"".join((*parts, raw[done:]))

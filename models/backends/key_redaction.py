"""Take a key out of what a server answers, however its characters are spelled there."""

import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

SECRET, HIDDEN = 8, "***"  # the least characters of a key that is a secret; what stands for it
SIGNS = bytes(set(range(256)) - set((string.ascii_letters + string.digits).encode()))
LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
LETTERS = np.array([number not in SIGNS for number in range(256)])
SPELLED = re.compile(
    rb"(?<!\\)\\+(?:u00|x)([0-9a-f]{2})|%([0-9a-f]{2})|&#(?:0*([0-9]{2,3})|x0*([0-9a-f]{2}));", re.I
)
"""A character spelled as in JSON and Python, in addresses, in HTML."""


def redact_key(text: str, key: str | None) -> str:
    r"""A server's text without the key: whole, in two halves, or with its characters spelled.

    What is found is letters and digits in a row, in either case, whatever other signs stand between
    them. Takes time linear in the text and in the key.

    A key of fewer than eight characters is not a secret: only the key itself is taken out, and only
    from what is shown.

    >>> redact_key(r"a abcd efgh \u0061bcdefgh 61-abcdefg", "abcdefgh")
    'a *** *** 61-***'
    """
    if key is None:
        return text
    letters = key.lower().encode().translate(None, SIGNS)
    if len(letters) < SECRET:
        return text.replace(key, HIDDEN)
    # Half of the key's characters, of which some may be signs.
    least = max(SECRET - 1, (len(key) + 1) // 2 - (len(key) - len(letters)))
    if len(text) < least:
        return text
    raw = text.encode("utf-8", "surrogatepass")
    if (read := SPELLED.sub(_in_place, raw)) != raw:
        raw = _without(raw, read, _spans(read.translate(LOWER, SIGNS), letters, least))
    raw = _without(raw, raw, _spans(raw.translate(LOWER, SIGNS), letters, least))
    return raw.decode("utf-8", "surrogatepass")


def _spans(text: bytes, key: bytes, least: int) -> list[tuple[int, int]]:
    """Return where at least so many letters of the key stand in a row, from the left.

    In any `least` letters of the key lies one of few blocks; what is around a block is compared.
    """
    size, spans = (least + 1) // 2, []
    for place in range(0, len(key) - size + 1, size):
        block = key[place : place + size]
        at = text.find(block)
        while at >= 0:
            before = text[max(0, at - place) : at]
            start = at - _common(before[::-1], key[:place][::-1])
            end = at + _common(text[at : at + len(key) - place], key[place:])
            if end - start >= least:
                spans.append((start, end))
            at = text.find(block, end if end - start >= least else at + 1)
    return sorted(spans)


def without_key(plain: object, key: str | None) -> Any:
    """An answer in which no text holds the key, unless that is too short to be one."""
    if key is None or len(key) < SECRET:
        return plain
    if isinstance(plain, str):
        return redact_key(plain, key)
    if isinstance(plain, list):
        return [without_key(item, key) for item in plain]
    if isinstance(plain, dict):
        return {redact_key(name, key): without_key(value, key) for name, value in plain.items()}
    return plain


def _common(left: bytes, right: bytes) -> int:
    """Return the number of bytes with which both begin."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[:middle] == right[:middle] else (low, middle - 1)
    return low


def _in_place(spelled: re.Match[bytes]) -> bytes:
    """Return a spelled character, and zeros in the place of the rest of its spelling."""
    number = int(spelled[3]) if spelled[3] else int(spelled[1] or spelled[2] or spelled[4], 16)
    return bytes([number if number < 128 else 0]).ljust(len(spelled[0]), b"\0")


def _without(raw: bytes, read: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    """Return bytes without spans of the letters of `read`, each byte of which is one of `raw`."""
    if not spans:
        return raw
    places = np.flatnonzero(LETTERS[np.frombuffer(read, np.uint8)])
    parts, done = [], 0
    for start, end in spans:
        first, last = int(places[start]), int(places[end - 1]) + 1
        while read[last : last + 1] == b"\0":  # the rest of a spelling
            last += 1
        if first >= done:
            parts += [raw[done:first], HIDDEN.encode()]
        done = max(done, last)
    return b"".join((*parts, raw[done:]))

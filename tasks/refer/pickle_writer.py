"""Write plain data as a pickle, for generated data in layouts that have pickles."""

import struct

from harness.errors import DataError


def dumps(value: object) -> bytes:
    """Return plain data as a pickle of protocol 2, as Python 2 writes it.

    ASCII texts become byte strings of Python 2, as in the official files; other texts become its
    Unicode strings. Nothing is memoised.

    >>> from harness.tasks.refer.plain_pickle import loads
    >>> loads(dumps([{"sent_id": 3, "sent": "café", "tokens": []}, -70000, None, True, 0.5]))
    [{'sent_id': 3, 'sent': 'café', 'tokens': []}, -70000, None, True, 0.5]
    """
    return b"\x80\x02" + _dumped(value) + b"."


def _dumped(value: object) -> bytes:
    """Return the instructions that put a value on the unpickler's stack."""
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int):
        small = -(2**31) <= value < 2**31
        return b"J" + struct.pack("<i", value) if small else b"L%dL\n" % value
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        raw = value.encode("utf-8")
        return (b"T" if value.isascii() else b"X") + struct.pack("<I", len(raw)) + raw
    if isinstance(value, (list, tuple)):
        return b"](" + b"".join(map(_dumped, value)) + b"e"
    if isinstance(value, dict):
        pairs = (_dumped(key) + _dumped(item) for key, item in value.items())
        return b"}(" + b"".join(pairs) + b"u"
    raise DataError("value to pickle", expected="plain data", found=type(value).__name__)

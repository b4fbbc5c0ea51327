"""Data of a site as scripts, because pages opened from disk may load scripts, but no other files.

A chunk is a script that calls `H(key, value)` once. The value is JSON, which is JavaScript too; in
a packed chunk it is base64 text of the JSON's raw deflate, a third of its size.
"""

import base64
import json
import zlib

LEVEL = 6  # of deflate


def plain(key: str, value: object) -> bytes:
    """Return a chunk with its value as JSON."""
    return script(key, encoded(value))


def script(key: str, text: bytes) -> bytes:
    """Return a chunk with the JSON text of its value."""
    return b"H(%s,%s)\n" % (encoded(key), text)


def packed(key: str, value: object) -> bytes:
    """Return a chunk with its value compressed."""
    return wrapped(key, packed_body(value))


def packed_body(value: object) -> str:
    """Return the compressed text of a value, for `wrapped`."""
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return base64.b64encode(deflate.compress(encoded(value)) + deflate.flush()).decode("ascii")


def wrapped(key: str, body: str) -> bytes:
    """Return the packed chunk with a text of `packed_body`."""
    return script(key, b'"%s"' % body.encode("ascii"))


def encoded(value: object) -> bytes:
    """Return a value as JSON in one line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A response may hold half of a surrogate pair, which no encoding can represent.
    return text.encode("utf-8", "replace")

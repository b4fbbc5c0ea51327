"""Data as scripts: browsers load a script from disk, and nothing else.

A chunk calls `H(key, value)` once. The value is JSON, which is JavaScript too; of a packed chunk it
is a text, base64 of the raw deflate of the JSON, a third of its size.
"""

import base64
import json
import zlib

LEVEL = 6


def plain(key: str, value: object) -> bytes:
    """Return a chunk whose value stands in it as JSON."""
    return b"H(%s,%s)\n" % (_json(key), _json(value))


def packed(key: str, value: object) -> bytes:
    """Return a chunk whose value is compressed."""
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(_json(value)) + deflate.flush()
    return b'H(%s,"%s")\n' % (_json(key), base64.b64encode(body))


def _json(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A response may hold half of a surrogate pair, which no encoding can represent.
    return text.encode("utf-8", "replace")

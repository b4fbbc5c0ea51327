"""Messages between a process and the node that runs in it: a line of JSON, then bytes."""

import json
from collections.abc import Callable, Mapping
from typing import Any

Read = Callable[[int], bytes]
Write = Callable[[bytes], object]

LONGEST = 1 << 26  # bytes of a line; it has the time of every frame of a video


def send(write: Write, head: Mapping[str, Any], data: bytes = b"") -> None:
    """Write a message."""
    write(json.dumps({**head, "bytes": len(data)}).encode() + b"\n")
    if data:
        write(data)


def receive(read: Read) -> tuple[dict[str, Any], bytes]:
    """Read a message; `read` gives at most so many bytes, none at the end.

    Raises:
        EOFError: the other side has ended.
        ValueError: what it wrote is no message.
    """
    line = bytearray()
    while not line.endswith(b"\n"):
        char = read(1)
        if not char:
            raise EOFError("the other side has ended")
        line += char
        if len(line) > LONGEST:
            raise ValueError("a line that is too long")
    head: dict[str, Any] = json.loads(line)
    data = bytearray()
    while len(data) < int(head["bytes"]):
        part = read(int(head["bytes"]) - len(data))
        if not part:
            raise EOFError("the other side has ended")
        data += part
    return head, bytes(data)

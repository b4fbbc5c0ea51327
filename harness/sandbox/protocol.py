"""The messages between harness (`process`) and a worker (`worker`), and the limits of executions.

Harness → worker, on its standard input: `REQUEST` (seconds, number of bytes), then the request in
JSON. Worker → harness, on its standard output: once `HELLO` (number of bytes) and JSON, then for
each request `RESPONSE` and the bytes that the execution printed and emitted. Execution → worker: a
pipe of `FRAME`s. An execution can forge everything that it writes, so its frames are never trusted.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

HELLO = struct.Struct("!I")
"""Number of bytes."""
REQUEST = struct.Struct("!dI")
"""Seconds, number of bytes."""
RESPONSE = struct.Struct("!BiidII")
"""`Ended`, exit status as waitpid gives it, number of the last refused system call or -1, seconds,
bytes printed, bytes emitted."""
FRAME = struct.Struct("!cI")
"""`VALUE` or `ERROR` (empty: the code ran to its end), and the number of bytes that follow."""
VALUE, ERROR = b"v", b"e"
MAX_ERROR = 500  # characters


class Ended(IntEnum):
    """Reason why an execution ended."""

    BY_ITSELF = 0
    TIMED_OUT = 1
    PRINTED_TOO_MUCH = 2
    EMITTED_TOO_MUCH = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one execution; its time is an argument of `Sandbox.run`."""

    memory: int = 2 << 30
    """Bytes of address space, of which Python, NumPy and OpenCV take a part."""
    printed: int = 64 << 10
    """Bytes of standard output: an execution that prints more is ended."""
    emitted: int = 4 << 20
    """Bytes of JSON of all values together: an execution that emits more is ended."""

"""Standard output and error that never fail a command, even if closed, full, or not read.

Characters that the encoding lacks are written as escapes. Text that cannot be written is dropped;
after the command, `main` asks `Streams.lost` whether that happened.
"""

import codecs
import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO

from harness.errors import StoreError

ESCAPES = "harness.escapes"
"""Name of `_escape` among Python's handlers of encoding errors."""


def _escape(error: UnicodeError) -> tuple[str, int]:
    r"""Write characters that an encoding lacks as JSON's escapes, so that JSON stays JSON.

    >>> "✓ 😀".encode("ascii", ESCAPES)
    b'\\u2713 \\ud83d\\ude00'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(f"\\u{pair}" for pair in pairs), error.end


codecs.register_error(ESCAPES, _escape)


class _Descriptor(io.FileIO):
    """An open file descriptor. Data that cannot be written is dropped, and not tried again."""

    fault: OSError | None = None
    """The first error of writing."""

    def write(self, data: object) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            self.fault = self.fault or error
            return memoryview(data).nbytes  # type: ignore[arg-type]


@dataclass(slots=True)
class Streams:
    """Standard output of a command while it runs."""

    output: _Descriptor | None = field(default=None)

    def lost(self) -> StoreError | None:
        """Return the error that lost output; None if nothing was lost, or nobody read it
        (`harness list | head`, a closed output).
        """
        with suppress(ValueError):  # a stream that something has closed
            sys.stdout.flush()
        fault = None if self.output is None else self.output.fault
        if fault is None or fault.errno in (errno.EPIPE, errno.EBADF):
            return None
        return StoreError(
            "standard output",
            expected="room for what the command prints",
            found=fault.strerror or str(fault),
            fix="Finished work is kept; the same command prints it again.",
        )


@contextmanager
def tolerant_streams() -> Iterator[Streams]:
    """Let standard output and error take any text while a command runs.

    Streams that are not files, such as those of a notebook, are left as they are.
    """
    before = sys.stdout, sys.stderr
    for number, stream in enumerate((sys.stdin, *before)):
        if stream is None:  # closed: the next file that is opened would get its number
            _occupy(number)
    streams = Streams()
    sys.stdout, streams.output = _tolerant(before[0], 1)
    sys.stderr, _ = _tolerant(before[1], 2)
    try:
        yield streams
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _occupy(number: int) -> None:
    """Open the null device as a file descriptor that is closed."""
    try:
        os.fstat(number)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)


def _tolerant(stream: TextIO | None, number: int) -> tuple[TextIO, _Descriptor | None]:
    """Return a stream to the same file that takes any text, and its descriptor.

    A stream that is not a file, and None if it cannot be opened, have no descriptor.
    """
    if stream is not None and not isinstance(stream, io.TextIOWrapper):
        return stream, None
    try:
        if stream is not None:
            stream.flush()
            number = stream.fileno()
        descriptor = _Descriptor(number, "w", closefd=False)
    except (OSError, ValueError, AttributeError):
        return stream or io.StringIO(), None
    text = io.TextIOWrapper(
        io.BufferedWriter(descriptor),
        encoding=getattr(stream, "encoding", "utf-8"),
        errors=ESCAPES,
        line_buffering=getattr(stream, "line_buffering", True),
        write_through=getattr(stream, "write_through", False),
    )
    return text, descriptor

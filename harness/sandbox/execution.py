"""The result of an execution, read from bytes that the executed code may have forged.

`process` makes an `Execution` of what a worker sends: printed text, frames of emitted values and of
an error (`protocol`), and how the process ended.
"""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.errors import ParseError
from harness.responses import loads_strict, storable
from harness.sandbox.protocol import ERROR, FRAME, MAX_ERROR, VALUE, Ended, Limits

MAX_VALUES = 1000  # values that one execution may emit


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Result of running code. The code itself reports it: never trust it."""

    output: str
    """Printed text, cut at the limit."""
    values: tuple[Any, ...] = ()
    """All values that the code emitted, in order: plain JSON."""
    error: str | None = None
    """The last line of the code's traceback, or the reason why the code was ended."""
    refused: str | None = None
    """Name of the last system call that was refused to code that failed.

    None: the code did not fail (libraries try calls that they can do without), or the tier cannot
    tell the name.
    """
    timed_out: bool = False
    seconds: float
    """Wall-clock time, including the start of the process that ran the code."""

    @property
    def value(self) -> Any:
        """Value that the code emitted last; None if it emitted nothing."""
        return self.values[-1] if self.values else None


def read_execution(
    reason: Ended,
    status: int,
    printed: bytes,
    emitted: bytes,
    *,
    limits: Limits,
    timeout: float,
    seconds: float,
    refused: str | None,
) -> Execution:
    """Return the execution that a worker reports.

    Args:
        reason: Reason why the execution ended.
        status: Exit status, as of `os.waitpid`.
        printed: Bytes of standard output.
        emitted: Frames of values and of the error; see `protocol`.
        limits: Limits of the execution.
        timeout: Seconds that the execution was allowed.
        seconds: Seconds that it took.
        refused: Name of the last refused system call; None: none was refused, or it is not known.
    """
    values: list[Any] = []
    error: str | None = f"the process ended early: {_ending(status)}"
    try:
        for frame_type, content in _frames(emitted):
            if frame_type == ERROR:
                error = " ".join(storable(content, MAX_ERROR).split()) or None
                break
            if len(values) == MAX_VALUES:
                raise ParseError("emitted", expected=f"at most {MAX_VALUES} values", found="more")
            values.append(read_value(content, limits.emitted))
    except ParseError as fault:
        error = str(fault)
    if reason is Ended.TIMED_OUT:
        error = f"TimeoutError: the code ran for more than {timeout:g} s"
    elif reason is Ended.PRINTED_TOO_MUCH:
        error = f"OutputError: the code printed more than {limits.printed} bytes"
    elif reason is Ended.EMITTED_TOO_MUCH:
        error = f"OutputError: the code emitted more than {limits.emitted} bytes"
    return Execution(
        output=storable(printed[: limits.printed].decode("utf-8", "replace")),
        values=tuple(values),
        error=error,
        refused=None if error is None else refused,
        timed_out=reason is Ended.TIMED_OUT,
        seconds=seconds,
    )


def read_value(text: str, limit: int) -> Any:
    """Return a value from JSON that code wrote.

    Raises:
        ParseError: it is not one value in strict JSON, or holds text that is not Unicode.
    """
    value = loads_strict(text, limit)
    if "\\u" in text:  # half of a surrogate pair is valid JSON, but cannot be written as UTF-8
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ParseError("emitted", expected="Unicode", found=str(error)) from error
    return value


def _frames(content: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield the kind and the text of each complete frame.

    Raises:
        ParseError: there are other bytes than frames.
    """
    start = 0
    while len(content) - start >= FRAME.size:
        frame_type, size = FRAME.unpack_from(content, start)
        start += FRAME.size
        body = content[start : start + size]
        start += size
        if len(body) < size:  # the execution was ended while it wrote
            return
        try:
            text = body.decode()
        except UnicodeDecodeError as error:
            raise ParseError("emitted", expected="UTF-8", found=str(error)) from error
        if frame_type not in (VALUE, ERROR):
            raise ParseError("emitted", expected="frames", found=repr(frame_type))
        yield frame_type, text


def _ending(status: int) -> str:
    """Return how a process ended, in words."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"killed by {signal.Signals(number).name}"
    return f"exit code {os.WEXITSTATUS(status)}"

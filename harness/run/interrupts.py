"""Handle Ctrl-C (SIGINT), SIGTERM (from schedulers) and SIGHUP (from a closed terminal) without
losing work.

A training records the first signal (`interrupts`), so that a state can be saved. An evaluation ends
and journals the answered samples (`terminable`); a second signal ends that too.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeAlias

KEPT_IGNORED = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
"""Signals that stay ignored if they are ignored, as under `nohup`."""
ENDING = [signal.SIGTERM, *KEPT_IGNORED]
"""Signals by which other programs end a process."""

STOPPING = "stopping as soon as the state can be saved; Ctrl-C once more stops at once\n"

Handler: TypeAlias = Callable[[int, FrameType | None], None]


class Interrupts:
    """A flag that a signal sets."""

    def __init__(self, *, speaks: bool = False) -> None:
        self._speaks = speaks
        self._requested = threading.Event()
        self._raises = False

    def __call__(self) -> bool:
        """Return True if a signal has come."""
        return self._requested.is_set()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Raise KeyboardInterrupt in the block at the first signal, even an earlier one."""
        self._raises = True
        try:
            if self():
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = False

    def notice(self, number: int, frame: FrameType | None) -> None:
        """Record a signal; raise KeyboardInterrupt in `at_once` or at a second Ctrl-C."""
        del frame
        again = self()
        self._requested.set()
        if self._raises or (again and number == signal.SIGINT):
            raise KeyboardInterrupt
        if self._speaks and not again:
            # Not `print`: the signal may have come within one, whose buffer is not reentrant.
            with suppress(OSError, ValueError, AttributeError):
                line = f"\n{STOPPING}" if sys.stderr.isatty() else STOPPING  # below a drawn bar
                os.write(sys.stderr.fileno(), line.encode())


@contextmanager
def interrupts(*, speaks: bool = False) -> Iterator[Interrupts]:
    """Record the first Ctrl-C, so that a state can be saved; the second raises KeyboardInterrupt.

    SIGTERM and SIGHUP are recorded in the same way, and raise in a block of `at_once` alone. With
    `speaks`, a line on standard error says at once what a recorded signal leads to.
    """
    requested = Interrupts(speaks=speaks)
    with _handled(requested.notice, signal.SIGINT, *ENDING):
        yield requested


@contextmanager
def terminable() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at SIGTERM and SIGHUP, as at Ctrl-C."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled(end, *ENDING):
        yield


@contextmanager
def _handled(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Handle signals in the block, in the main thread alone, which alone may set handlers.

    An ignored SIGHUP stays ignored, for `nohup`; an ignored SIGINT does not, because a shell's
    background jobs ignore it by default, and they must be interruptible.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, handler)
        for number in numbers
        if number not in KEPT_IGNORED or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old or signal.SIG_DFL)


@contextmanager
def sigterm_kept() -> Iterator[None]:
    """Restore the handler of SIGTERM after a block that may replace it, as `ray.init` does."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)

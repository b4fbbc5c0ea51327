"""Handlers of Ctrl-C, of SIGTERM, which schedulers send before they kill, and of SIGHUP, which a
terminal sends when its connection is lost: no work is lost.

A training records the first signal, so that a state can be saved. An evaluation ends, and journals
the answered samples; a second signal ends that too.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias

KEPT_IGNORED = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
ENDING = [signal.SIGTERM, *KEPT_IGNORED]
"""Signals by which others end a process."""

Handler: TypeAlias = Callable[[int, FrameType | None], None]


class Interrupts:
    """A flag that a signal sets; calling it returns True once one has come."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._raises = False

    def __call__(self) -> bool:
        """Return True once a signal has come."""
        return self._requested.is_set()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let the first signal raise KeyboardInterrupt in the block, also one that came before."""
        self._raises = True
        try:
            if self():
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = False

    def notice(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        del frame
        again = self()
        self._requested.set()
        if self._raises or (again and number == signal.SIGINT):
            raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Record the first Ctrl-C, so that a state can be saved; the second raises KeyboardInterrupt.

    SIGTERM and SIGHUP are recorded in the same way, and raise in a block of `at_once` alone.
    """
    requested = Interrupts()
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
    """Handle signals in the block, if this is the main thread, whose they are.

    A SIGHUP that is ignored stays so, as `nohup` wants it; a shell's background jobs ignore SIGINT,
    and are meant to be interruptible nevertheless.
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

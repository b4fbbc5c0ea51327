"""Handlers of Ctrl-C, and of SIGTERM, which schedulers send before they kill: no work is lost.

A training records the first signal, so that a state can be saved. An evaluation ends, and journals
the answered samples; a second signal ends that too.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Record the first Ctrl-C, so that a state can be saved; the second raises KeyboardInterrupt.

    SIGTERM is recorded in the same way, and never raises. The function that is yielded returns True
    once a signal has come.
    """
    requested = threading.Event()

    def notice(number: int, frame: FrameType | None) -> None:
        del frame
        if requested.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        requested.set()

    if threading.current_thread() is not threading.main_thread():
        yield requested.is_set  # signals are the main thread's
        return
    before = {number: signal.signal(number, notice) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requested.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def terminable() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at SIGTERM, as at Ctrl-C."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@contextmanager
def sigterm_kept() -> Iterator[None]:
    """Restore the handler of SIGTERM after a block that may replace it, as `ray.init` does."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)

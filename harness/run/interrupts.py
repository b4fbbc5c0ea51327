"""Ctrl-C, and SIGTERM, which schedulers send before they kill: nothing that was done is lost.

A training notices them once, so that a state can be saved. An evaluation ends, and journals what
was answered; a second signal ends that too.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C only be noticed, so that a state can be saved; the second one raises.

    SIGTERM is noticed in the same way.
    """
    asked = threading.Event()

    def notice(number: int, frame: FrameType | None) -> None:
        del frame
        if asked.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set  # signals are the main thread's
        return
    before = {number: signal.signal(number, notice) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end what is done as Ctrl-C does."""

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
    """Put a handler of SIGTERM back that what is called replaces, as `ray.init` does."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)

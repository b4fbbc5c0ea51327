"""Ctrl-C while something is trained: noticed once, so that a state can be saved."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C only be noticed, so that a state can be saved; the second one raises.

    SIGTERM, which schedulers send before they kill, is noticed in the same way.
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

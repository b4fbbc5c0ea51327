"""Batches that are under way through a model's stages, and what becomes of them at an early end."""

import threading
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Asked = TypeVar("Asked")
Done = TypeVar("Done")


@dataclass(slots=True)
class UnderWay(Generic[Asked, Done]):
    """What will have been said of each batch, and what will have become of it.

    Both are futures that are settled once, by whoever is first: a stage, or the end. Safe to use
    from several threads.
    """

    _batches: "dict[Future[Done], Future[Asked]]" = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def begin(self) -> "tuple[Future[Asked], Future[Done]]":
        """The two futures of a batch, which is under way until the second one is settled."""
        asked: Future[Asked] = Future()
        done: Future[Done] = Future()
        with self._lock:
            self._batches[done] = asked
        done.add_done_callback(self._leave)
        return asked, done

    def cut(self) -> "list[Future[Done]]":
        """End all asking; what will become of the batches that were answered before."""
        return [
            done
            for done, asked in self._now()
            if not fail(asked, CancelledError()) and asked.exception() is None
        ]

    def drop(self) -> bool:
        """End everything; whether a batch was not finished."""
        self.cut()
        return sum(fail(done, CancelledError()) for done, _ in self._now()) > 0

    def _now(self) -> "list[tuple[Future[Done], Future[Asked]]]":
        with self._lock:
            return list(self._batches.items())

    def _leave(self, done: "Future[Done]") -> None:
        with self._lock:
            self._batches.pop(done, None)


def settle(future: "Future[T]", value: T) -> None:
    """Give a future its result, unless it has one already, or an error."""
    with suppress(InvalidStateError):
        future.set_result(value)


def fail(future: "Future[Any]", error: BaseException) -> bool:
    """Whether the future was not settled before, and has this error now."""
    try:
        future.set_exception(error)
    except InvalidStateError:
        return False
    return True

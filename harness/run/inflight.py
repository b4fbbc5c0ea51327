"""Futures that are settled once, by the first caller: a stage, or the end of the run."""

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def set_result(future: "Future[T]", value: T) -> None:
    """Give a future its result, unless it has one already, or an error."""
    with suppress(InvalidStateError):
        future.set_result(value)


def set_error(future: "Future[T]", error: BaseException) -> bool:
    """Give a future its error, unless it is settled already; return True if it was not."""
    try:
        future.set_exception(error)
    except InvalidStateError:
        return False
    return True

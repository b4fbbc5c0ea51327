"""Futures that are settled once, by whoever is first: a stage, or the end."""

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


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

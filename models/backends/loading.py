"""Errors of harness for faults of loading a network from a folder to a device."""

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

from harness.errors import ModelError, OutOfMemory

T = TypeVar("T")


class loaded_once(cached_property[T]):  # noqa: N801 - a decorator
    """A cached property that threads load once, under a lock of its instance.

    The lock of `cached_property` is one of all instances up to Python 3.11, so that a part that
    hangs would hold up every other one; later there is none.
    """

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        """Return the value, which is made now if it is not there."""
        if instance is None:
            return self
        held, name = vars(instance), self.attrname
        assert name is not None, "it stands in a class"
        with held.setdefault("_loading", threading.RLock()):
            if name not in held:
                held[name] = self.func(instance)
            return held[name]


def check_report(
    what: str,
    report: Mapping[str, Collection[object]],
    *,
    expected: str = "exactly the weights of its architecture",
    fix: str = "It was saved from another architecture, or not completely.",
) -> None:
    """Raise ModelError unless every weight was in a file, and nothing else was."""
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        names = sorted(map(_described, report.get(kind) or ()))
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            problem = f"{kind.replace('_', ' ')}: {', '.join(names[:5])}{more}"
            raise ModelError(what, expected=expected, found=problem, fix=fix)


def _described(key: object) -> str:
    """Return the name of a weight, and both shapes where they differ."""
    if not isinstance(key, tuple):
        return str(key)
    name, saved, built = key
    return f"{name} {[*saved]} in place of {[*built]}"


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Turn what loading raises into ModelError."""
    from safetensors import SafetensorError

    try:
        with no_bars():
            yield
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        problem = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelError(what, expected="to load it", found=problem) from error
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        TypeError,
    ) as error:  # an odd setting
        problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ModelError(what, expected="to load it", found=problem) from error


@contextmanager
def no_bars() -> Iterator[None]:
    """Keep transformers from drawing bars, which would break ours."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextmanager
def memory() -> Iterator[None]:
    """Turn a device that is full into OutOfMemory."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        raise OutOfMemory("batch", found=" ".join(str(error).split())[:200]) from error
    except RuntimeError as error:
        if not any(words in str(error) for words in ("allocate memory", "not enough memory")):
            raise  # torch has no class of its own for a CPU that is full
        raise OutOfMemory("batch", found=" ".join(str(error).split())[:200]) from error

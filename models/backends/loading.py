"""Load networks safely: once among threads, and with faults as errors of harness.

Backends and perception parts wrap their loading in `loading` (ModelError) and their computing in
`memory` (OutOfMemory), and check transformers' report on the weights (`check_report`).
"""

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

from harness.errors import ModelError, OutOfMemory

T = TypeVar("T")


class loaded_once(cached_property[T]):  # noqa: N801 - a decorator
    """A cached property that is computed once, under a lock of its instance.

    `cached_property` itself has one lock for all instances up to Python 3.11, so that a part that
    hangs would block all others, and no lock in later versions.
    """

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        """Return the value; compute it at the first access."""
        if instance is None:
            return self
        attributes, name = vars(instance), self.attrname
        assert name is not None, "set by the class that has the property"
        with attributes.setdefault("_loading", threading.RLock()):
            if name not in attributes:
                attributes[name] = self.func(instance)
            return attributes[name]


def check_report(
    what: str,
    report: Mapping[str, Collection[object]],
    *,
    expected: str = "exactly the weights of its architecture",
    fix: str = "It was saved from another architecture, or not completely.",
) -> None:
    """Raise ModelError unless the files held exactly the weights of the network.

    Args:
        what: Name of the checkpoint in the error.
        report: Names of weights that are missing, unexpected or mismatched, as transformers'
            `output_loading_info` gives them.
        expected: The error's `expected`.
        fix: The error's `fix`.
    """
    for problem_type in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        names = sorted(map(_described, report.get(problem_type) or ()))
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            problem = f"{problem_type.replace('_', ' ')}: {', '.join(names[:5])}{more}"
            raise ModelError(what, expected=expected, found=problem, fix=fix)


def _described(key: object) -> str:
    """Return the name of a weight, and both shapes if they differ."""
    if not isinstance(key, tuple):
        return str(key)
    name, saved, built = key
    return f"{name} {[*saved]} in place of {[*built]}"


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Turn exceptions of loading into ModelError about `what`; hide progress bars."""
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
    ) as error:  # raised for invalid settings in a configuration
        problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ModelError(what, expected="to load it", found=problem) from error


@contextmanager
def no_bars() -> Iterator[None]:
    """Hide transformers' progress bars, which would be mixed with the one of this program."""
    from transformers.utils import logging

    were_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if were_enabled:
            logging.enable_progress_bar()


@contextmanager
def memory() -> Iterator[None]:
    """Turn torch's errors of a full device into OutOfMemory."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        raise OutOfMemory("batch", found=" ".join(str(error).split())[:200]) from error
    except RuntimeError as error:
        if not any(phrase in str(error) for phrase in ("allocate memory", "not enough memory")):
            raise  # for a full CPU memory, torch raises RuntimeError
        raise OutOfMemory("batch", found=" ".join(str(error).split())[:200]) from error

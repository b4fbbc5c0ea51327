"""What a family of golden files says of itself, for docs/conformance.md."""

import math
from typing import NamedTuple


class Comparison(NamedTuple):
    """Our numbers against an official tool's."""

    protocol: str
    """The protocol, or the number that is compared."""
    tool: str
    """The official tool and file."""
    commit: str
    """Its commit, or its version."""
    cases: int
    """How many inputs were compared."""
    deviation: float
    """The largest absolute difference; 0 is equality to the last bit."""


def gap(ours: float | None, official: float | None) -> float:
    """The absolute difference; infinite where one is missing or no number, and the other is one."""
    if ours is None or official is None:
        return 0.0 if ours is official else math.inf
    if ours == official:
        return 0.0
    # `max` passes over NaN: a number that is none must not count as equal.
    return difference if (difference := abs(ours - official)) > 0 else math.inf

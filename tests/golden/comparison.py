"""What a family of golden files says of itself, for docs/conformance.md."""

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

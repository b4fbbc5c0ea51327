"""Deviations that types of numbers explain, as documented, and measured ones held against them."""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from harness.statistics.quantiles import half_width
from harness.statistics.shares import exact

ASSUMED = "bfloat16"
"""Type of numbers of a side that does not tell its own, as servers do not."""
EXACT = "float32"
SPREAD = 5.0
"""Times the measured mean difference of log-probabilities up to which greedy choices may differ."""
LEVEL = 0.99
"""Level of the intervals by which a deviation is judged."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Largest deviations that two types of numbers explain."""

    logprob: float
    """Mean difference of a token's log-probability, in nats."""
    token: float
    """Share of tokens at which a greedy response takes another way."""

    def tightened(self, measured: float) -> "Rates":
        """Return what is explained where log-probabilities differ by less than they may.

        Args:
            measured: Mean difference of a token's log-probability, in nats.
        """
        exact = _documented()[EXACT]
        share = min(1.0, SPREAD * measured / self.logprob)
        floor = Rates(exact["logprob"], exact["token"])
        return Rates(max(share * self.logprob, floor.logprob), max(share * self.token, floor.token))


@cache
def _documented() -> dict[str, dict[str, float]]:
    return tomllib.loads((files(__package__) / "rates.toml").read_text("utf-8"))


def rates_of(*dtypes: str | None) -> Rates:
    """Return the deviations that the types of both sides explain together; None: not told."""
    rows = [_documented()[dtype if dtype in _documented() else ASSUMED] for dtype in dtypes]
    names = ("logprob", "token")
    return Rates(*(math.hypot(*(row[name] for row in rows)) for name in names))


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return a mean with the ends of its interval, by Student's t over questions."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, 0.0, math.inf
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    reach = half_width(LEVEL, degrees=len(values) - 1) * error
    return mean, mean - reach, mean + reach


def share_interval(count: int, of: int, *, groups: int) -> tuple[float, float]:
    """Return the ends of the exact interval of a share of tokens, of so many questions."""
    if not of or groups < 2:
        return 0.0, 1.0
    return exact(count / of, size=of, groups=groups, level=LEVEL)

"""Bound the deviations between two ways of calling one network that their dtypes alone explain.

`rates.toml` documents how far each dtype deviates from float32. `certify` compares these bounds
(`Rates`) with the intervals of measured deviations (`mean_interval`, `share_interval`).
"""

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
"""Assumed dtype of a side that does not report its own, such as a server."""
EXACT = "float32"
SPREAD = 5.0
"""Ratio of tightened bounds (`Rates.tightened`) to the measured difference of log-probabilities:
greedy choices may differ by more than it."""
LEVEL = 0.99
"""Level of the intervals by which a deviation is judged."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Largest deviations that the dtypes of two sides explain."""

    logprob: float
    """Mean difference of a token's log-probability, in nats."""
    token: float
    """Share of tokens at which greedy responses diverge."""

    def tightened(self, measured: float) -> "Rates":
        """Return smaller rates if log-probabilities differ by less than the dtypes explain.

        Args:
            measured: Mean difference of a token's log-probability, in nats.
        """
        documented = _documented()[EXACT]
        ratio = min(1.0, SPREAD * measured / self.logprob)
        floor = Rates(documented["logprob"], documented["token"])
        return Rates(max(ratio * self.logprob, floor.logprob), max(ratio * self.token, floor.token))


@cache
def _documented() -> dict[str, dict[str, float]]:
    return tomllib.loads((files(__package__) / "rates.toml").read_text("utf-8"))


def rates_of(*dtypes: str | None) -> Rates:
    """Return the deviations that several dtypes explain together; None: not reported.

    Deviations of different dtypes are taken as independent, so their squares add up.
    """
    rows = [_documented()[dtype if dtype in _documented() else ASSUMED] for dtype in dtypes]
    names = ("logprob", "token")
    return Rates(*(math.hypot(*(row[name] for row in rows)) for name in names))


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return (mean, low, high) by Student's t over questions, at `LEVEL`."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, 0.0, math.inf
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    reach = half_width(LEVEL, degrees=len(values) - 1) * error
    return mean, mean - reach, mean + reach


def share_interval(count: int, total: int, *, groups: int) -> tuple[float, float]:
    """Return the ends of the exact interval of the share `count / total`, clustered in `groups`."""
    if not total or groups < 2:
        return 0.0, 1.0
    return exact(count / total, size=total, groups=groups, level=LEVEL)

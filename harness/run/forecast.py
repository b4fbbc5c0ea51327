"""Forecast the seconds, tokens and money of the remaining samples from the predicted ones.

`piloted` computes `Rates` (means of a sample) with the statistics below, and stores them in the run
folder; `harness reproduce` reads them for other runs of the model.
"""

import heapq
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import StatisticsError, correlation, fmean, linear_regression, stdev

from harness.errors import StoreError, counted
from harness.plain import from_plain
from harness.store.atomic import read_json, write_json

PILOT = "pilot.json"
MIN_EXPLAINED = 0.5
"""Smallest share of the variance that lengths must explain for a mean to be corrected by them."""
RANGE_IN_ERRORS = 2.0
"""Half of the range that is stated beside an estimate, in standard errors."""
MIN_HALF_RANGE = 0.05
"""Half of the smallest range that is stated, as a share of the estimate."""
MAX_UNEVEN = 50
"""Largest number of samples for each slot with which a run's end, with empty slots, matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Mean cost of a sample, and memory, as measured by a pilot; stored in `pilot.json`."""

    samples: int
    """Number of measured samples."""
    prompt_tokens: float
    completion_tokens: float
    seconds: float | None = None
    """None: not known yet."""
    error: float = 0.0
    """Standard error of the seconds, as a share of them."""
    cost: float | None = None
    """Money a sample; None: there are no prices."""
    memory: int = 0
    """Peak memory of one process in bytes; 0: not known."""
    gpu_memory: int = 0
    """Peak memory on one GPU in bytes; 0: not known."""
    device: str = "cpu"

    def write(self, folder: Path) -> None:
        """Write them into a run folder."""
        write_json(folder / PILOT, asdict(self))

    def text(self, remaining: int, currency: str = "") -> str:
        """Return the forecast for `remaining` samples as text."""
        parts = []
        if self.seconds is not None:
            total, half = remaining * self.seconds, RANGE_IN_ERRORS * self.error
            between = ""
            if half >= MIN_HALF_RANGE:
                low, high = total * max(0.0, 1 - half), total * (1 + half)
                between = f" ({duration(low)} to {duration(high)})"
            parts.append(f"about {duration(total)}{between}")
        if self.prompt_tokens or self.completion_tokens:
            prompt, completion = remaining * self.prompt_tokens, remaining * self.completion_tokens
            parts.append(f"{prompt:,.0f} prompt and {completion:,.0f} completion tokens")
        if self.cost is not None:
            parts.append(f"{remaining * self.cost:,.2f} {currency}".strip())
        if self.memory:
            parts.append(f"{self.memory / 1e9:.1f} GB of memory so far")
        if self.gpu_memory:
            parts.append(f"{self.gpu_memory / 1e9:.1f} GB on a GPU")
        return f"{counted(remaining, 'sample')} left: {', '.join(parts) or 'nothing measured'}"


def stored_rates(folder: Path) -> Rates | None:
    """Return the rates stored in a run folder; None if they are missing or unreadable."""
    with suppress(StoreError, ValueError, TypeError, OSError):
        return from_plain(Rates, read_json(folder / PILOT))
    return None


def duration(seconds: float) -> str:
    """Return a time as text, in the largest unit of which it is at least one.

    >>> duration(5400), duration(90), duration(0.4)
    ('1.5 h', '1.5 min', '0.4 s')
    """
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def mean_by_length(values: Sequence[float], lengths: Sequence[float], mean_length: float) -> float:
    """Estimate the mean of values in a population whose mean length is `mean_length`.

    It is the sample's mean plus, if a line explains most of the variance, its slope times the
    difference of the mean lengths (the regression estimator; Cochran, Sampling Techniques, 7.1).
    """
    mean = fmean(values)
    with suppress(StatisticsError):  # fewer than two values, or all equal
        if correlation(lengths, values) ** 2 > MIN_EXPLAINED:
            slope = linear_regression(lengths, values).slope
            return max(0.0, mean + slope * (mean_length - fmean(lengths)))
    return mean


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of a mean as a share of the mean; 0 for fewer than two values."""
    mean = fmean(values) if len(values) > 1 else 0.0
    return stdev(values) / mean / math.sqrt(len(values)) if mean else 0.0


def uneven_end(weights: Sequence[float], slots: int, count: int, *, seed: int) -> float:
    """Return the factor by which samples take longer because slots are empty at the end of a run.

    It is simulated: samples with drawn weights take the first free slot; those at work now are
    drawn by weight, each with a random part of its work left.

    Args:
        weights: Work of the measured samples, such as their tokens.
        slots: Number of samples at work at once.
        count: Number of remaining samples.
        seed: Seed of the simulation.
    """
    if slots == 1 or count > MAX_UNEVEN * slots:
        return 1.0
    random = Random(seed)
    now = random.choices(weights, weights, k=min(slots, count))
    ends = sorted(weight * random.random() for weight in now)
    for weight in random.choices(weights, k=count - len(now)):
        heapq.heapreplace(ends, ends[0] + weight)
    return max(ends) * slots / (count * fmean(weights))

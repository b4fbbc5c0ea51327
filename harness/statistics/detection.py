"""Losses of right answers that the swap test shows with a given probability.

Shares of right answers move in whole answers, so that the swap test is stricter than its normal
approximation: a difference of D answers counts as D - 1 (half of the step of 2 in which swaps of
single answers move D), as in the sign test. A formula of standard errors alone promises 80 % power
where simulations show 64 to 74 %; this one is right to 3 points (`tests/statistics/
test_detection.py`).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.scores import Mean, UnitScore
from harness.statistics.clusters import FloatArray
from harness.statistics.quantiles import quantile

MAX_ANSWERS = 200
"""Right answers of one group: with more, steps of whole answers do not matter."""
STEPS = 40  # halvings, which find a share to 12 digits

Pairs = Mapping[tuple[int, int], float]
"""Share of the groups that have so many right answers by one run and by the other."""


@dataclass(frozen=True, slots=True)
class RightAnswers:
    """Two runs' right answers by group."""

    pairs: Pairs
    groups: int
    answers: int

    @classmethod
    def of(cls, a: Sequence[UnitScore], b: Sequence[UnitScore], name: str) -> "RightAnswers | None":
        """Count them, in either order of the runs.

        None if the metric is no share of answers that count once each, or a group has many.
        """
        counts: list[Counter[str]] = []
        for units in (a, b):
            right: Counter[str] = Counter()
            for unit in units:
                score = unit.scores.get(name)
                if not isinstance(score, Mean) or score.value not in (0, 1) or score.weight != 1:
                    return None
                right[unit.group] += int(score.value)
            counts.append(right)
        first, second = counts
        if not first or max(*first.values(), *second.values()) > MAX_ANSWERS:
            return None
        pairs: Counter[tuple[int, int]] = Counter()
        for group, right_a in first.items():
            pairs[right_a, second[group]] += 1
            pairs[second[group], right_a] += 1
        shares = {pair: count / pairs.total() for pair, count in pairs.items()}
        return cls(shares, len(first), len(a))

    def detectable(self, *, level: float, power: float) -> float | None:
        """The smallest loss that the swap test shows with probability `power`.

        The losing run is as the two are to each other, but that each of its right answers is lost
        with the same probability.

        Args:
            level: Of the two-sided test.
            power: How often the loss shall be shown.

        Returns:
            The loss as a share of answers; None if not even the loss of all right ones is shown.
        """
        low, high = 0.0, 1.0
        if shown(self.pairs, groups=self.groups, lost=high, level=level) < power:
            return None
        for _ in range(STEPS):
            middle = (low + high) / 2
            if shown(self.pairs, groups=self.groups, lost=middle, level=level) < power:
                low = middle
            else:
                high = middle
        right = sum(weight * right for (_, right), weight in self.pairs.items())
        return high * right * self.groups / self.answers


def shown(pairs: Pairs, *, groups: int, lost: float, level: float) -> float:
    """The probability that the swap test shows the loss of a share of one run's right answers.

    With d the groups' differences, it shows D = Σd at `D - 1 > q √Σd²`, q the normal quantile. Both
    sides are sums over groups, and their difference is taken for normal.
    """
    moments = _moments(pairs, lost)
    first, second, third, fourth = moments
    root = math.sqrt(groups * second)
    if not root:
        return 0.0
    critical = quantile((1 + level) / 2)
    slope = critical / (2 * root)  # of the threshold in Σd²
    variance = (
        second - first**2 - 2 * slope * (third - first * second) + slope**2 * (fourth - second**2)
    )
    if variance <= 0:
        return float(groups * first - 1 > critical * root)
    beyond = (groups * first - 1 - critical * root) / math.sqrt(groups * variance)
    return 0.5 * math.erfc(-beyond / math.sqrt(2))


def _moments(pairs: Pairs, lost: float) -> FloatArray:
    """The first four moments of a group's right answers less those that the losing run keeps."""
    total = np.zeros(4)
    kept = {right: _kept(right, lost) for _, right in pairs}
    for (right, other), weight in pairs.items():
        difference = right - np.arange(other + 1.0)
        powers = difference ** np.arange(1, 5)[:, None]
        total += weight * (powers @ kept[other])
    return total


def _kept(right: int, lost: float) -> FloatArray:
    """The probability that 0, 1, … of so many right answers are kept."""
    shares = [
        math.comb(right, count) * (1 - lost) ** count * lost ** (right - count)
        for count in range(right + 1)
    ]
    return np.array(shares)

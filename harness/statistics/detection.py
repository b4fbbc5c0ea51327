"""The smallest loss of right answers that the swap test shows with a given probability (power).

`paired.compare` states it beside a comparison that shows no difference. Numbers of right answers
are whole, so the swap test is stricter than its normal approximation: a difference of D answers
counts as D - 1, as in the sign test (swapping one answer changes D by 2, and half of that step is
1). Where a formula of standard errors alone promises 80 % power, simulations show 64 to 74 %. With
the correction (`approximate_power`) they show up to 85 % if groups are few; then the loss is
corrected by the exact power (`exact_power`). Simulations: `tests/statistics/test_detection.py`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from harness.scores import Mean, UnitScore
from harness.statistics.clusters import FloatArray
from harness.statistics.quantiles import quantile
from harness.statistics.resampling import generator

MAX_ANSWERS = 200
"""Most right answers of one group: with more, it does not matter that numbers are whole."""
N_HALVINGS = 40  # of an interval, which find a share to 12 digits
MAX_EXACT_GROUPS = 200
"""Most groups for which the approximation is corrected; with more it is right to a percent."""
N_CORRECTIONS = 3  # repetitions of the correction
POWER_LOST_BY_SAMPLING = 0.45
"""Power lost by sampling, times the number of groups. The runs' shares are those of a sample, so
the loss varies with a variance of one over the number of groups, and power is a concave function of
the loss. Measured in simulations of 15 to 24 groups, with rates of beta(2, 2)."""
ROUNDING_ERROR = 1e-9  # rounding error of a probability that is a sum
N_DRAWS = 300  # random draws of the groups' differences, whose exact powers are averaged

Pairs = Mapping[tuple[int, int], float]
"""Share of groups by (right answers of one run, right answers of the other)."""


@dataclass(frozen=True, slots=True)
class RightAnswers:
    """Two runs' right answers by group."""

    pairs: Pairs
    groups: int
    answers: int

    @classmethod
    def of(cls, a: Sequence[UnitScore], b: Sequence[UnitScore], name: str) -> "RightAnswers | None":
        """Count the right answers of metric `name` in two runs; the order of the runs is forgotten.

        None if the metric is not a share of answers that count once each, or a group has more than
        `MAX_ANSWERS`.
        """
        right_by_run: list[Counter[str]] = []
        for units in (a, b):
            right_by_group: Counter[str] = Counter()
            for unit in units:
                score = unit.scores.get(name)
                if not isinstance(score, Mean) or score.value not in (0, 1) or score.weight != 1:
                    return None
                right_by_group[unit.group] += int(score.value)
            right_by_run.append(right_by_group)
        first, second = right_by_run
        if not first or max(*first.values(), *second.values()) > MAX_ANSWERS:
            return None
        pairs: Counter[tuple[int, int]] = Counter()
        for group, right_a in first.items():
            pairs[right_a, second[group]] += 1
            pairs[second[group], right_a] += 1
        shares = {pair: count / pairs.total() for pair, count in pairs.items()}
        return cls(shares, len(first), len(a))

    def detectable(self, *, level: float, power: float) -> float | None:
        """Return the smallest loss that the swap test shows with probability `power`.

        The model: two runs that differ as these do, one of which loses each of its right answers
        with the same probability.

        Args:
            level: Level of the two-sided test.
            power: Probability with which the loss shall be shown.

        Returns:
            The loss as a share of answers; None if not even the loss of all right ones is shown.
        """
        target_power = min(power + POWER_LOST_BY_SAMPLING / self.groups, (1 + power) / 2)
        goal, lost = target_power, 1.0
        for _ in range(N_CORRECTIONS if self.groups <= MAX_EXACT_GROUPS else 1):
            lost = self._least_loss(goal, level)
            goal += target_power - self._power(lost, level)
        if lost == 1 and self._power(lost, level) < power:
            return None
        right = sum(weight * right for (_, right), weight in self.pairs.items())
        return lost * right * self.groups / self.answers

    def _power(self, lost: float, level: float) -> float:
        """Return the power for a share of lost answers, exactly if groups are few."""
        power = exact_power if self.groups <= MAX_EXACT_GROUPS else approximate_power
        return power(self.pairs, groups=self.groups, lost=lost, level=level)

    def _least_loss(self, power: float, level: float) -> float:
        """Return the least share of right answers whose loss has this power; 1 if none has."""
        low, high = 0.0, 1.0
        for _ in range(N_HALVINGS):
            middle = (low + high) / 2
            if approximate_power(self.pairs, groups=self.groups, lost=middle, level=level) < power:
                low = middle
            else:
                high = middle
        return 1.0 if low == 1 - 2.0**-N_HALVINGS else high


def approximate_power(pairs: Pairs, *, groups: int, lost: float, level: float) -> float:
    """Return the probability that the swap test shows the loss of a share of right answers.

    With d the groups' differences, the test shows D = Σd if `D - 1 > q √Σd²`, q the normal
    quantile. The difference of the two sides, linearised, is a sum over groups and so about normal.

    Args:
        pairs: Share of the groups by their right answers in the two runs.
        groups: Number of groups.
        lost: Share of one run's right answers that it loses, 0 to 1.
        level: Level of the two-sided test.
    """
    first, second, third, fourth = _moments(pairs, lost)
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


def exact_power(pairs: Pairs, *, groups: int, lost: float, level: float) -> float:
    """Return the probability of `approximate_power` by the exact test; slow for many groups.

    Given how many groups differ by 1, 2, … answers, each difference is a loss with a probability
    that follows from `pairs` (one half by the hypothesis): D is a sum of binomials, and the test's
    power is exact. It is averaged over `N_DRAWS` random draws of these numbers of groups.
    """
    sizes, losses = _differences(pairs, lost)
    random = generator(0)
    group_counts, times = np.unique(
        random.multinomial(groups, sizes, size=N_DRAWS), axis=0, return_counts=True
    )
    total = 0.0
    for n_by_size, repeats in zip(group_counts[:, 1:].tolist(), times, strict=True):
        critical = _critical(tuple(n_by_size), level)
        total += repeats * _sum_chances(n_by_size, losses)[critical:].sum()
    return float(total / N_DRAWS)


def _differences(pairs: Pairs, lost: float) -> tuple[FloatArray, FloatArray]:
    """Return the distribution of a group's difference D between the runs, as (sizes, losses).

    `sizes` has the probabilities that |D| is 0, 1, … answers; `losses` the probability, if |D| is
    1, 2, …, that the run which loses answers has fewer.
    """
    limit = max(map(max, pairs))
    chances = np.zeros(2 * limit + 1)  # of -limit … limit
    for (first, second), weight in pairs.items():
        chances[limit + first - np.arange(second + 1)] += weight * _binomial(second, lost)
    gains, losses = chances[limit - 1 :: -1][:limit], chances[limit + 1 :]
    both = gains + losses
    sizes = np.concatenate([[chances[limit]], both])
    return sizes / sizes.sum(), np.divide(losses, both, out=np.full(limit, 0.5), where=both > 0)


@lru_cache(maxsize=2**14)
def _critical(n_by_size: tuple[int, ...], level: float) -> int:
    """Return the first index in `_sum_chances` of which the test shows the sum D.

    Twice the probability of this sum or a larger one is at most `1 - level`. `n_by_size` has the
    numbers of groups that differ by 1, 2, … answers.
    """
    chances = _sum_chances(n_by_size, np.full(len(n_by_size), 0.5))
    tails = np.cumsum(chances[::-1])[::-1]
    middle = len(chances) // 2
    return middle + 1 + int(np.count_nonzero(2 * tails[middle + 1 :] > 1 - level + ROUNDING_ERROR))


def _sum_chances(n_by_size: Sequence[int], losses: FloatArray) -> FloatArray:
    """Return the probability of each sum D of the groups' differences, from the least D on.

    Args:
        n_by_size: Numbers of groups that differ by 1, 2, … answers.
        losses: Probability that such a difference is a loss.
    """
    total = np.ones(1)
    for size, (count, share) in enumerate(zip(n_by_size, losses, strict=True), start=1):
        if count:
            chances = np.zeros(2 * size * count + 1)
            chances[:: 2 * size] = _binomial(count, 1 - float(share))
            total = np.convolve(total, chances)
    return total


def _moments(pairs: Pairs, lost: float) -> FloatArray:
    """Return the first four moments of a group's difference between the two runs.

    The difference is one run's right answers less those that the losing run keeps.
    """
    total = np.zeros(4)
    chances = {right: _binomial(right, lost) for _, right in pairs}
    for (first, second), weight in pairs.items():
        difference = first - np.arange(second + 1.0)
        powers = difference ** np.arange(1, 5)[:, None]
        total += weight * (powers @ chances[second])
    return total


def _binomial(right: int, lost: float) -> FloatArray:
    """Return the probability that 0, 1, …, `right` right answers are kept, of `right`."""
    n_kept = np.arange(right + 1)
    chances: FloatArray = _coefficients(right) * (1 - lost) ** n_kept * lost ** (right - n_kept)
    return chances


@lru_cache(maxsize=MAX_ANSWERS + 1)
def _coefficients(count: int) -> FloatArray:
    """Return the binomial coefficients `count` over 0, 1, …, `count`."""
    return np.array([float(math.comb(count, chosen)) for chosen in range(count + 1)])

"""Losses of right answers that the swap test shows with a given probability.

Shares of right answers move in whole answers, so that the swap test is stricter than its normal
approximation: a difference of D answers counts as D - 1 (half of the step of 2 in which swaps of
single answers move D), as in the sign test. A formula of standard errors alone promises 80 % power
where simulations show 64 to 74 %. By this approximation it is up to 85 % where groups are few;
there the loss is corrected by the exact test: `tests/statistics/test_detection.py`.
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
"""Right answers of one group: with more, steps of whole answers do not matter."""
STEPS = 40  # halvings, which find a share to 12 digits
FEW = 200
"""Groups up to which the approximation is corrected: it is right to a point with more."""
CORRECTIONS = 3
SCATTER = 0.45
"""Power that is lost, times the number of groups, because both runs' shares are those of a sample:
power is a concave function of the loss, which scatters with a variance of one over that number.
Measured in simulations of 15 to 24 groups, of rates of beta(2, 2)."""
SAME = 1e-9  # by which a probability that is a sum may be off
DRAWS = 300  # of how many groups differ by how much: the exact power of each is averaged

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

        None if the metric is not a share of answers that count once each, or a group has many.
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
        wanted = min(power + SCATTER / self.groups, (1 + power) / 2)
        goal, lost = wanted, 1.0
        for _ in range(CORRECTIONS if self.groups <= FEW else 1):
            lost = self._lost(goal, level)
            goal += wanted - self._shown(lost, level)
        if lost == 1 and self._shown(lost, level) < power:
            return None
        right = sum(weight * right for (_, right), weight in self.pairs.items())
        return lost * right * self.groups / self.answers

    def _shown(self, lost: float, level: float) -> float:
        power = shown_exactly if self.groups <= FEW else shown
        return power(self.pairs, groups=self.groups, lost=lost, level=level)

    def _lost(self, power: float, level: float) -> float:
        """Return the least share of answers whose loss the approximation shows so often, or 1."""
        low, high = 0.0, 1.0
        for _ in range(STEPS):
            middle = (low + high) / 2
            if shown(self.pairs, groups=self.groups, lost=middle, level=level) < power:
                low = middle
            else:
                high = middle
        return 1.0 if low == 1 - 2.0**-STEPS else high


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


def shown_exactly(pairs: Pairs, *, groups: int, lost: float, level: float) -> float:
    """The probability that the swap test shows such a loss, of at most `FEW` groups.

    Given how many groups differ by 1, 2, … answers, each difference is a loss with the probability
    that `pairs` say, by the hypothesis with one half: D is a sum of binomials, and the test's power
    exact. It is averaged over `DRAWS` of these numbers.
    """
    sizes, losses = _differences(pairs, lost)
    random = generator(0)
    drawn, times = np.unique(
        random.multinomial(groups, sizes, size=DRAWS), axis=0, return_counts=True
    )
    total = 0.0
    for counts, count in zip(drawn[:, 1:].tolist(), times, strict=True):
        critical = _critical(tuple(counts), level)
        total += count * _sum(counts, losses)[critical:].sum()
    return float(total / DRAWS)


def _differences(pairs: Pairs, lost: float) -> tuple[FloatArray, FloatArray]:
    """Return how probable a difference of 0, 1, … answers is, and one of 1, … to be a loss."""
    limit = max(map(max, pairs))
    chances = np.zeros(2 * limit + 1)  # of -limit … limit
    for (first, second), weight in pairs.items():
        chances[limit + first - np.arange(second + 1)] += weight * _kept(second, lost)
    gains, losses = chances[limit - 1 :: -1][:limit], chances[limit + 1 :]
    both = gains + losses
    sizes = np.concatenate([[chances[limit]], both])
    return sizes / sizes.sum(), np.divide(losses, both, out=np.full(limit, 0.5), where=both > 0)


@lru_cache(maxsize=2**14)
def _critical(counts: tuple[int, ...], level: float) -> int:
    """Return the place in `_sum` from which on D is shown: twice its tail is at most 1 - level."""
    chances = _sum(counts, np.full(len(counts), 0.5))
    tails = np.cumsum(chances[::-1])[::-1]
    middle = len(chances) // 2
    return middle + 1 + int(np.count_nonzero(2 * tails[middle + 1 :] > 1 - level + SAME))


def _sum(counts: Sequence[int], losses: FloatArray) -> FloatArray:
    """Return how probable each sum D is, from the least, of differences by 1, 2, … answers."""
    total = np.ones(1)
    for size, (count, share) in enumerate(zip(counts, losses, strict=True), start=1):
        if count:
            chances = np.zeros(2 * size * count + 1)
            chances[:: 2 * size] = _kept(count, 1 - float(share))
            total = np.convolve(total, chances)
    return total


def _moments(pairs: Pairs, lost: float) -> FloatArray:
    """The first four moments of a group's right answers less those that the losing run keeps."""
    total = np.zeros(4)
    kept = {right: _kept(right, lost) for _, right in pairs}
    for (first, second), weight in pairs.items():
        difference = first - np.arange(second + 1.0)
        powers = difference ** np.arange(1, 5)[:, None]
        total += weight * (powers @ kept[second])
    return total


def _kept(right: int, lost: float) -> FloatArray:
    """The probability that 0, 1, … of so many right answers are kept."""
    kept = np.arange(right + 1)
    shares: FloatArray = _ways(right) * (1 - lost) ** kept * lost ** (right - kept)
    return shares


@lru_cache(maxsize=MAX_ANSWERS + 1)
def _ways(count: int) -> FloatArray:
    """Return in how many ways 0, 1, … of so many are chosen."""
    return np.array([float(math.comb(count, chosen)) for chosen in range(count + 1)])

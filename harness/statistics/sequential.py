"""Sequential comparison of two runs: tested after every group, and stopped when it is decided.

`decide` makes two tests by betting on the candidate's difference per group (Waudby-Smith and Ramdas
2024, "Estimating means of bounded random variables by betting", JRSS B 86:1). Under the hypothesis
that the mean of x is at most 0, with x in [-1, 1], the wealth `prod(1 + bet * x)` of a bettor who
stakes a fixed share is a supermartingale that starts at 1, and so is the average of several
bettors. By Ville's inequality (1939) the wealth ever reaches `1 / alpha` with probability at most
`alpha`, however often one tests and for whatever reason one stops.

The groups must come in a random order, which does not depend on their scores or content. They are
the unit of independence: all questions about one video count together.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Decision: TypeAlias = Literal["worse", "not worse"]

BET_SHARES = 0.5 ** np.arange(1, 9)
"""Shares of wealth that the bettors stake. A large share wins early if the difference is large, a
small share wins later if it is small."""
MAX_LOG_WEALTH = 500.0  # logarithm of a wealth; more would overflow


def wealth(x: ArrayLike) -> NDArray[np.float64]:
    """Return the average wealth of the bettors after each of the numbers `x` in [-1, 1].

    1 / wealth is an anytime-valid p value of the hypothesis that the mean of `x` is at most 0.
    """
    logs = np.cumsum(np.log1p(np.multiply.outer(np.asarray(x, float), BET_SHARES)), axis=0)
    return np.asarray(np.exp(np.minimum(logs, MAX_LOG_WEALTH)).mean(axis=1))


def decide(
    totals: Sequence[float], sizes: Sequence[int], *, largest: int, margin: float, level: float
) -> tuple[Decision | None, int]:
    """Decide whether a candidate is worse than its baseline, or not worse by a margin.

    The compared quantity is the difference of the means over units, whose scores lie in [0, 1]. A
    candidate that is equal or better is called "worse" with a probability of at most `1 - level`,
    and so is one that is worse by `margin` or more called "not worse".

    Args:
        totals: Sum of the differences of each group's units, in the order in which the groups came:
            candidate minus baseline, signed so that more is better.
        sizes: Number of units of each group.
        largest: Number of units of the largest group of all.
        margin: The drop that matters.
        level: Level of either decision.

    Returns:
        The first decision and the number of groups that it took; None and the number of all
        groups, if no decision was made.
    """
    x, n = np.asarray(totals, float), np.asarray(sizes, float)
    bets: dict[Decision, NDArray[np.float64]] = {
        "worse": -x / largest,
        "not worse": (x + margin * n) / (largest * (1 + margin)),
    }
    decisions: list[tuple[int, Decision]] = []
    for decision, numbers in bets.items():
        is_decided = wealth(numbers) >= 1 / (1 - level)
        if is_decided.any():
            decisions.append((int(np.argmax(is_decided)) + 1, decision))
    if not decisions:
        return None, len(totals)
    groups, first = min(decisions)
    return first, groups

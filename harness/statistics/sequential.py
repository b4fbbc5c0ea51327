"""A comparison of two runs that may be looked at after every group, and stopped when it is decided.

Two tests by betting on the candidate's difference per group (Waudby-Smith and Ramdas 2024,
"Estimating means of bounded random variables by betting", JRSS B 86:1). Under the hypothesis that
the mean of x is at most 0, with x in [-1, 1], the wealth `prod(1 + bet * x)` of a bettor who stakes
a fixed share is a supermartingale that starts at 1, and so is the average of several bettors. By
Ville's inequality (1939) it ever reaches `1 / alpha` with probability at most `alpha`, whenever one
looks and for whatever reason one stops.

The groups must come in an order that does not depend on their scores or their content: a random
one. They are the unit of independence, so that the questions about one video count together.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Decision: TypeAlias = Literal["worse", "not worse"]

BETS = 0.5 ** np.arange(1, 9)
"""Shares that the bettors stake: large ones win early on large differences, small ones later on
small ones."""
MAX_LOG_WEALTH = 500.0  # logarithm of a wealth; more would overflow


def wealth(x: ArrayLike) -> NDArray[np.float64]:
    """Return the average wealth after each of some numbers in [-1, 1], by the order they came in.

    Its inverse is an anytime-valid p value of the hypothesis that their mean is at most 0.
    """
    logs = np.cumsum(np.log1p(np.multiply.outer(np.asarray(x, float), BETS)), axis=0)
    return np.asarray(np.exp(np.minimum(logs, MAX_LOG_WEALTH)).mean(axis=1))


def decide(
    totals: Sequence[float], sizes: Sequence[int], *, largest: int, margin: float, level: float
) -> tuple[Decision | None, int]:
    """Decide whether a candidate is worse than its baseline, or not worse by a margin.

    The compared quantity is the difference of the means over units, whose scores lie in [0, 1].
    Of models that are equal or better it says "worse" with a probability of at most `1 - level`,
    and of models that are worse by `margin` or more "not worse" likewise.

    Args:
        totals: Of each group in the order they came in: sum of its units' differences, candidate
            minus baseline, signed so that more is better.
        sizes: Number of units of each group.
        largest: Number of units of the largest group of all.
        margin: The drop that matters.
        level: Of either decision.

    Returns:
        The first decision and the number of groups that it took; None and all of them, if none
        was made.
    """
    x, n = np.asarray(totals, float), np.asarray(sizes, float)
    against: dict[Decision, NDArray[np.float64]] = {
        "worse": -x / largest,
        "not worse": (x + margin * n) / (largest * (1 + margin)),
    }
    decisions = [
        (int(np.argmax(shown)) + 1, decision)
        for decision, numbers in against.items()
        if (shown := wealth(numbers) >= 1 / (1 - level)).any()
    ]
    groups, decision = min(decisions, default=(len(totals), None))
    return decision, groups

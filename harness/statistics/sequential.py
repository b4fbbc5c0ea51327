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

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

BETS = 0.5 ** np.arange(1, 9)
"""Shares that the bettors stake: large ones win early on large differences, small ones later on
small ones."""


@dataclass(slots=True)
class Wealth:
    """Evidence against the hypothesis that bounded numbers have a mean of at most 0."""

    logs: np.ndarray = field(default_factory=lambda: np.zeros(len(BETS)))
    """Logarithm of each bettor's wealth."""

    def add(self, x: float) -> None:
        """Bet on the next number, in [-1, 1]."""
        self.logs = self.logs + np.log1p(BETS * x)

    @property
    def value(self) -> float:
        """Average wealth; the inverse of an anytime-valid p value."""
        return float(np.mean(np.exp(np.minimum(self.logs, 500.0))))


@dataclass(slots=True)
class SequentialComparison:
    """Decides whether a candidate is worse than its baseline, or not worse by a margin.

    The compared quantity is the difference of the means over units, whose scores lie in [0, 1].
    Of models that are equal or better it says "worse" with probability at most `1 - level`, and of
    models that are worse by `margin` or more "not worse" with probability at most `1 - level`.
    """

    largest: int
    """Number of units in the largest group."""
    margin: float
    level: float = 0.95
    groups: int = 0
    decision: Literal["worse", "not worse"] | None = None
    _worse: Wealth = field(default_factory=Wealth)
    _not_worse: Wealth = field(default_factory=Wealth)

    def add(self, differences: Iterable[float]) -> None:
        """Look at one more group.

        Args:
            differences: Of each unit of the group, candidate minus baseline, in [-1, 1], signed so
                that more is better.
        """
        given = list(differences)
        total, most = sum(given), self.largest
        self._worse.add(-total / most)
        self._not_worse.add((total + self.margin * len(given)) / (most * (1 + self.margin)))
        self.groups += 1
        enough = 1 / (1 - self.level)
        if self.decision is None and self._worse.value >= enough:
            self.decision = "worse"
        elif self.decision is None and self._not_worse.value >= enough:
            self.decision = "not worse"

"""`Budgets`: levels of difficulty, and the budget of reasoning tokens of each (appendices D.2, E).

The score D of a sample, from 1 (easy) to 10 (hard), comes from `difficulty`.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from harness.errors import UsageError

NAMES: Mapping[int, tuple[str, ...]] = {
    2: ("easy", "hard"),
    3: ("easy", "medium", "hard"),
    4: ("easy", "medium", "harder", "hard"),
}
"""Names of the levels, by their number."""
UNKNOWN = 5.0
"""Score of a sample without a rating, or with one that could not be read: medium."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Levels by thresholds of the score D, and a budget of tokens for each."""

    thresholds: tuple[float, ...] = (3.0, 6.0)
    """Highest score of each level but the last, included."""
    tokens: tuple[int, ...] = (96, 176, 256)
    """Budget of each level."""

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.thresholds) + 1 or len(self.tokens) not in NAMES:
            raise UsageError(
                "budgets and thresholds",
                expected="two to four budgets, and one threshold less",
                found=f"{len(self.tokens)} and {len(self.thresholds)}",
            )
        if list(self.thresholds) != sorted(set(self.thresholds)) or min(self.tokens) < 0:
            raise UsageError(
                "budgets and thresholds",
                expected="rising thresholds, budgets of at least 0",
                found=f"{self.thresholds}, {self.tokens}",
            )

    def level(self, score: float) -> int:
        """Return the level of a score, from 0.

        >>> [Budgets().level(score) for score in (1, 3.0, 3.0001, 6.0, 6.0001, 10)]
        [0, 0, 1, 1, 2, 2]
        """
        return bisect_left(self.thresholds, score)

    def budget(self, score: float) -> int:
        """Return L_budget of a score: the number of reasoning tokens without a penalty."""
        return self.tokens[self.level(score)]

    def histogram(self, scores: Iterable[tuple[str, float]]) -> dict[str, dict[str, int]]:
        """Return the number of samples of each level, by data set and for all (Table D2).

        `scores` are pairs of a sample's data set and its score.
        """
        rows = defaultdict[str, list[int]](list)
        for dataset, score in scores:
            rows[dataset].append(self.level(score))
        if rows:
            rows["all"] = [level for row in rows.values() for level in row]
        names = NAMES[len(self.tokens)]
        return {
            dataset: {name: row.count(level) for level, name in enumerate(names)}
            | {"total": len(row)}
            for dataset, row in rows.items()
        }


@cache
def budgets_of(tokens: str, thresholds: str) -> Budgets:
    """Return the budgets of two settings: numbers joined by `+`.

    Raises:
        UsageError: a text has another form, or the numbers do not fit together.

    >>> budgets_of("96+176+256", "3+6") == Budgets()
    True
    """
    return Budgets(
        thresholds=tuple(_numbers(thresholds, "thresholds")),
        tokens=tuple(int(number) for number in _numbers(tokens, "budgets")),
    )


def length_factor(used: int, budget: int, *, beta: float = 2e-3, clipped: bool = True) -> float:
    """Return S of Eq. 7, the factor of the reward after `used` tokens of reasoning; at most 1.

    The paper's formula is negative beyond 500 tokens over the budget, where it would punish a right
    answer; `clipped` ends at 0.

    >>> length_factor(96, 96), length_factor(196, 96), length_factor(900, 96)
    (1.0, 0.8, 0.0)
    """
    factor = 1.0 - beta * max(0, used - budget)
    return max(factor, 0.0) if clipped else factor


def _numbers(text: str, name: str) -> list[float]:
    """Return the numbers of a setting such as `96+176+256`."""
    pieces = [piece.strip() for piece in text.split("+")]
    if not all(re.fullmatch(r"\d{1,6}(\.\d{1,6})?", piece) for piece in pieces):
        raise UsageError(
            f"{name}={text}", expected="numbers joined by +, such as 96+176+256", found=text
        )
    return [float(piece) for piece in pieces]

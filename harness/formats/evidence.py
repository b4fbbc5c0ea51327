"""When hits of a file's answers are more than chance, and the numbers that decide it."""

from math import exp, lgamma, log, log1p
from typing import NamedTuple

from harness.formats.readings import Reading

LEAST = 3
"""Answers that have to be right in another reading alone."""
TIMES = 4
"""Times as many answers as are right only as they are read."""
CHANCE = 1e-3
"""Probability of so many hits by chance up to which a reading is reported."""
PRIOR = 10
"""Comparisons without a hit but one that are added to those with other samples, as few prove
nothing."""
HALF = 0.5
"""Agreement that is a hit, and share of hits from which answers are right as they are read."""
MARGIN = 0.25
"""Mean agreement by which a reading is better than answers as they are read, and than those that
are moved as most of them are."""
TRIED = 5
"""Readings that are tested: those that agree best."""


class Finding(NamedTuple):
    """Answers that agree with the ground truth in another meaning."""

    right: int
    """Number of answers that agree in it."""
    before: int
    """Number of answers that agree as they are read."""
    answered: int
    """Number of answers."""
    meaning: str
    """Meaning of the answers in words, which ends the sentence "if they are …"."""
    reading: Reading | None = None
    """The reading that makes them right; None where they answer other samples."""

    def __str__(self) -> str:
        return (
            f"{self.right} of {self.answered} that agree with the ground truth if they are "
            f"{self.meaning}, and {self.before} as they are read"
        )


def tail(hits: int, count: int, chance: float) -> float:
    """Return the probability of at least so many hits, of `count` with this chance each.

    >>> round(tail(2, 3, 0.5), 6)
    0.5
    """
    if hits <= 0 or chance >= 1:
        return 1.0
    whole = lgamma(count + 1)
    return sum(
        exp(
            whole
            - lgamma(k + 1)
            - lgamma(count - k + 1)
            + k * log(chance)
            + (count - k) * log1p(-chance)
        )
        for k in range(hits, count + 1)
    )

"""Decide whether a file's hits in another reading are more than chance: thresholds, and the test.

A *reading* is another meaning of all of a file's answers, such as boxes in a resized image. A *hit*
is an answer that agrees with the ground truth to `HALF` or more. `agreement`, `orders` and `frames`
use these numbers, and report a `Finding`.
"""

from math import exp, lgamma, log, log1p
from typing import NamedTuple

from harness.formats.readings import Reading

LEAST = 3
"""Least number of answers that are right in another reading and wrong as read."""
TIMES = 4
"""Least ratio of answers that are right in another reading alone to those right only as read."""
CHANCE = 1e-3
"""Largest probability of so many hits by chance for which a reading is reported."""
PRIOR = 10
"""Comparisons, one of them a hit, that are added to those with other samples: a few comparisons
without a hit do not show that chance never hits."""
HALF = 0.5
"""Agreement from which an answer is a hit; share of hits from which a file is right as read."""
MARGIN = 0.25
"""Mean agreement by which a reading must exceed the answers as they are read, and also the answers
from which a constant error was removed: the median shift or factor between them and the truth."""
TRIED = 5
"""Number of readings that are tested; those with the best agreement."""


class Finding(NamedTuple):
    """A reading or an order in which a file's answers agree better with the ground truth."""

    right: int
    """Number of answers that agree in this reading."""
    before: int
    """Number of answers that agree as they are read."""
    answered: int
    """Number of answers."""
    meaning: str
    """Meaning of the answers in words, which ends the sentence "if they are …"."""
    reading: Reading | None = None
    """The reading that makes the answers right; None if they belong to other samples."""

    def __str__(self) -> str:
        return (
            f"{self.right} of {self.answered} that agree with the ground truth if they are "
            f"{self.meaning}, and {self.before} as they are read"
        )


def tail(hits: int, count: int, chance: float) -> float:
    """Return the probability of at least `hits` of `count` independent trials with this chance.

    >>> round(tail(2, 3, 0.5), 6)
    0.5
    """
    if hits <= 0 or chance >= 1:
        return 1.0
    log_factorial = lgamma(count + 1)
    return sum(
        exp(
            log_factorial
            - lgamma(k + 1)
            - lgamma(count - k + 1)
            + k * log(chance)
            + (count - k) * log1p(-chance)
        )
        for k in range(hits, count + 1)
    )

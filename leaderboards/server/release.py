"""The Ladder of Blum and Hardt (2015, "The Ladder: a reliable leaderboard for machine learning
competitions", algorithm 1): the shown score moves only if a new best is better by a step.

Exact scores would reveal labels: of answers that differ in a few questions, or by the scores of
many random answers. A score that moves in steps reveals little.
"""

import math

from harness.scores import Better

BOUND_LEVEL = 0.95
"""Probability with which `bound` holds."""


def default_step(units: int) -> float:
    """Return the largest standard error of the mean of `units` numbers from 0 to 1, as 1 / k.

    >>> default_step(12), default_step(100), default_step(2500)
    (0.16666666666666666, 0.05, 0.01)
    """
    return 1 / math.floor(2 * math.sqrt(units))


def next_shown(
    before: float | None, score: float | None, step: float, better: Better = "higher"
) -> float | None:
    """Return the score that is shown after an upload, rounded to a multiple of the step.

    >>> next_shown(None, 0.613, 0.05), next_shown(0.6, 0.649, 0.05), next_shown(0.6, 0.68, 0.05)
    (0.6, 0.6, 0.7)

    Args:
        before: The score shown before; None: none yet.
        score: The exact score; None: there is none.
        step: The step; 0 shows the best exact score.
        better: Direction in which scores are better.
    """
    if score is None:
        return before
    sign = 1 if better == "higher" else -1
    if before is not None and not sign * (score - before) > step:
        return before
    return round(round(score / step) * step, 12) if step else score


def bound(units: int, step: float, uploads: int, level: float = BOUND_LEVEL) -> float:
    """Return a bound on the distance between the shown score and the best true score.

    Theorem 3.1 of the paper, solved for the distance: for a mean of n independent numbers from 0 to
    1 and k uploads that may each depend on all scores shown before, the probability of a distance
    above ε + step is at most exp(-2 ε² n + (1 / step + 2) ln(4 k / step) + 1). The true score is
    the mean over the population of questions.

    >>> round(bound(10_000, 0.05, 10_000), 3)
    0.173

    Args:
        units: Number n of questions that are scored.
        step: The step.
        uploads: Number k of uploads.
        level: Probability that the bound holds.
    """
    exponent = (1 / step + 2) * math.log(4 * uploads / step) + 1 - math.log(1 - level)
    return math.sqrt(exponent / (2 * units)) + step

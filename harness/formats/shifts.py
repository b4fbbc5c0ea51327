"""Test against the ground truth whether all intervals of a file are shifted by the same time.

A poor model's errors differ from answer to answer; a clock that starts elsewhere shifts all
intervals equally. `harness.formats.agreement` writes the result into a note.
"""

from collections.abc import Sequence

import numpy as np

from harness.formats.readings import Pair

FEW = 5
"""Least number of answers, and of videos, that are not shifted equally by chance."""
SHORTEST = 0.25
"""Least shift in seconds that rounding does not explain."""
EQUAL = 0.05
"""Largest deviation from the shift, as a fraction of it, but at least 0.02 s."""
MOST = 0.75
"""Least share of starts and ends with the shift: some are cut off at the video's ends."""


def constant_shift(pairs: Sequence[Pair]) -> str:
    """Return in words how much later or earlier than the ground truth all intervals are.

    "" if the differences vary, or are too few or too small.
    """
    answered = [pair for pair in pairs if pair.predicted.size]
    if len(answered) < FEW or len({pair.group for pair in answered}) < FEW:
        return ""
    errors = np.concatenate([(pair.predicted - pair.truth).ravel() for pair in answered])
    shift = float(np.median(errors))
    share = (abs(errors - shift) <= max(EQUAL * abs(shift), 0.02)).mean()
    if abs(shift) < SHORTEST or share < MOST:
        return ""
    return (
        f"{share:.0%} of starts and ends are {abs(shift):.2f} s "
        f"{'later' if shift > 0 else 'earlier'} than those of the ground truth"
    )

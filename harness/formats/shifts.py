"""Evidence that all intervals of a file are late or early by the same time.

A poor model's errors differ from answer to answer; a clock that starts elsewhere shifts all alike.
"""

from collections.abc import Sequence

import numpy as np

from harness.formats.readings import Pair

FEW = 5
"""Answers, and videos, of which it is not chance that all are shifted alike."""
SHORTEST = 0.25
"""Seconds of a shift that is no rounding."""
EQUAL = 0.05
"""Part of the shift by which one differs from it; 0.02 s at least."""
MOST = 0.75
"""Share of starts and ends with the shift: some are cut at the video's ends."""


def constant_shift(pairs: Sequence[Pair]) -> str:
    """Return how much later or earlier than the ground truth all intervals are; "" if they vary."""
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

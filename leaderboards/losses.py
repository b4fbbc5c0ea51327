"""Which losses fail a gate, and how often a model that did not change would fail it."""

from collections.abc import Sequence
from math import prod

import numpy as np

from harness.statistics.paired import Comparison
from harness.statistics.power import minimum_detectable
from harness.statistics.quantiles import two_sided_p

SLACK = 1e-9  # a loss of exactly the limit passes, whatever rounding does


def is_significant(comparison: Comparison, adjusted_p: float | None) -> bool:
    """Whether a comparison shows a loss, with a p value that is corrected for all tasks."""
    loss = comparison.loss
    if loss is None or loss <= 0:
        return False
    if adjusted_p is None:  # a loss that is the same whatever is left out
        return comparison.is_worse
    return adjusted_p <= 1 - comparison.level + SLACK


def limit(comparison: Comparison | None, max_loss: float) -> float:
    """The largest loss that passes where it is not significant.

    That is `max_loss`, or what the comparison can detect where that is more; without an interval
    nobody knows what it can, and `max_loss` holds.
    """
    if comparison is None or comparison.interval is None:
        return max_loss
    return max(max_loss, comparison.detectable or 0.0)


def false_alarms(comparisons: Sequence[Comparison], max_loss: float) -> float:
    """How often a gate fails on losses if no model changed; 0 to 1.

    Every swap of the two runs' results is a gate on models that are equally good. The share of
    swaps with a loss that fails is counted for each task; the tasks are taken for independent.

    Args:
        comparisons: Those of all tasks that have an interval.
        max_loss: The gate's limit.
    """
    each = (_share(one, max_loss, tasks=len(comparisons)) for one in comparisons)
    return 1 - prod(1 - share for share in each)


def _share(comparison: Comparison, max_loss: float, *, tasks: int) -> float:
    # Holm's correction finds some loss significant exactly where the smallest p times the number
    # of tasks is at most 1 - level.
    level = 1 - (1 - comparison.level) / tasks
    degrees = comparison.n_groups - 1
    sizes = minimum_detectable(1.0, level=comparison.level, degrees=degrees)
    if comparison.swaps is None:
        return max((1 - level) / 2, two_sided_p(sizes, degrees=degrees) / 2)
    drawn = comparison.swaps.differences
    losses = -drawn if comparison.better == "higher" else drawn
    error = (comparison.detectable or 0.0) / sizes
    # The sum of squares of the groups' differences is the same after every swap.
    squares = error**2 + (comparison.swaps.seen**2 - drawn**2) / comparison.n_groups
    detectable = sizes * np.sqrt(np.maximum(squares, 0.0))
    large = losses > np.maximum(max_loss, detectable) + SLACK
    shown = losses > comparison.swaps.critical(level) + SLACK
    return int(np.count_nonzero(large | shown)) / len(drawn)

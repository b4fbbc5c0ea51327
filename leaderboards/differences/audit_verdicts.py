"""Verdicts on a model's controls: whether it loses what a model that sees would lose."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from harness.statistics.paired import Comparison
from harness.statistics.shares import exact

Judge: TypeAlias = Callable[[Comparison], tuple[str, bool | None]]
"""Returns the verdict on a control, and whether it is what a sound model does."""
SAME = 0.5
"""Share of the score that a model that sees keeps at most without its images."""


def judge_blind(comparison: Comparison) -> tuple[str, bool | None]:
    """Judge a control without the right images: a model that sees loses at least half its score.

    It does not see if no loss is shown and the interval leaves out a loss of half.
    """
    return _judge_loss(comparison, "sees", "does not see")


def judge_order(comparison: Comparison) -> tuple[str, bool | None]:
    """Judge images or frames in another order by the same rule; order may rightly not matter."""
    verdict, passed = _judge_loss(comparison, "sees the order", "does not need the order")
    return verdict, passed or None


def _judge_loss(comparison: Comparison, seeing: str, blind: str) -> tuple[str, bool | None]:
    whole = abs(comparison.a or 0.0)
    if comparison.is_worse:
        large = comparison.better == "lower" or (comparison.loss or 0.0) >= (1 - SAME) * whole
        return (seeing, True) if large else ("partly", None)
    bound = None
    if comparison.interval is not None:
        bound = -comparison.interval[0] if comparison.better == "higher" else comparison.interval[1]
    known = bound is not None and whole > 0 and bound < SAME * whole
    return (blind, False) if known else ("cannot tell", None)


def judge_reasoning(comparison: Comparison) -> tuple[str, bool | None]:
    """Judge answers on other reasoning: they get worse if the answer follows from the reasoning."""
    return ("answers follow it", True) if comparison.is_worse else ("not shown to matter", None)


def judge_options(
    comparison: Comparison, kept: Sequence[bool], groups: int
) -> tuple[str, bool | None]:
    """Judge another order of options, which a sound model does not notice.

    The score alone does not tell: who always says A is as often right in any order.

    Args:
        comparison: The control against the model as it is.
        kept: Whether each answer is the same option as before.
        groups: From how many groups of samples these are.
    """
    if comparison.is_worse or comparison.is_better:
        return "prefers positions", False
    if kept and groups > 1:
        share = sum(kept) / len(kept)
        low, high = exact(share, size=len(kept), groups=groups, level=comparison.level)
        if low > SAME:
            return "stable", True
        if high < SAME:
            return "not stable", False
    return "cannot tell", None


def judge_frames(comparison: Comparison) -> tuple[str, bool | None]:
    """Judge another number of frames."""
    if comparison.is_worse:
        return "worse", None
    return ("better", None) if comparison.is_better else ("no difference shown", None)

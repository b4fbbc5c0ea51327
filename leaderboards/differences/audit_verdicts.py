"""Judge each control of an audit (`audit`) by the model's loss of score in it.

A control runs the model on changed inputs, such as blank images; its comparison has the unchanged
run as A and the control as B.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from harness.statistics.paired import Comparison
from harness.statistics.shares import exact

Judge: TypeAlias = Callable[[Comparison], tuple[str, bool | None]]
"""Returns the verdict on a control, and whether the model passed: True, False, or None if the
control does not decide it."""
THRESHOLD = 0.5
"""Largest share of its score that a seeing model keeps without its images, and the share of same
options that separates stable answers from unstable ones."""


def judge_blind(comparison: Comparison) -> tuple[str, bool | None]:
    """Judge a control without the right images: a model that sees loses at least half its score.

    The verdict is "does not see" if no loss is significant and the interval excludes a loss of half
    the score.
    """
    return _judge_loss(comparison, "sees", "does not see")


def judge_order(comparison: Comparison) -> tuple[str, bool | None]:
    """Judge images or frames in another order as `judge_blind`; a sound model may ignore order."""
    verdict, passed = _judge_loss(comparison, "sees the order", "does not need the order")
    return verdict, passed or None  # "does not need the order" is not a failure


def _judge_loss(comparison: Comparison, seeing: str, blind: str) -> tuple[str, bool | None]:
    """Return `seeing` for a significant loss of half the score, `blind` if such a loss is excluded.

    A smaller significant loss is `partly`. Of a metric where lower is better any significant loss
    counts as large.
    """
    score = abs(comparison.a or 0.0)
    if comparison.is_worse:
        large = comparison.better == "lower" or (comparison.loss or 0.0) >= (1 - THRESHOLD) * score
        return (seeing, True) if large else ("partly", None)
    max_loss = None
    if comparison.interval is not None:
        low, high = comparison.interval
        max_loss = -low if comparison.better == "higher" else high
    is_small = max_loss is not None and score > 0 and max_loss < THRESHOLD * score
    return (blind, False) if is_small else ("cannot tell", None)


def judge_reasoning(comparison: Comparison) -> tuple[str, bool | None]:
    """Judge answers on other reasoning: they get worse if the answer follows from the reasoning."""
    return ("answers follow it", True) if comparison.is_worse else ("not shown to matter", None)


def judge_options(
    comparison: Comparison, is_same: Sequence[bool], groups: int
) -> tuple[str, bool | None]:
    """Judge another order of options, which does not change a sound model's answers.

    The score alone is not enough: a model that always says A scores the same in any order.

    Args:
        comparison: The control against the unchanged model.
        is_same: For each answer, True if it is the same option as before.
        groups: Number of groups of samples that the answers come from.
    """
    if comparison.is_worse or comparison.is_better:
        return "prefers positions", False
    if is_same and groups > 1:
        stable = sum(is_same) / len(is_same)
        low, high = exact(stable, size=len(is_same), groups=groups, level=comparison.level)
        if low > THRESHOLD:
            return "stable", True
        if high < THRESHOLD:
            return "not stable", False
    return "cannot tell", None


def judge_frames(comparison: Comparison) -> tuple[str, bool | None]:
    """Judge another number of frames."""
    if comparison.is_worse:
        return "worse", None
    return ("better", None) if comparison.is_better else ("no difference shown", None)

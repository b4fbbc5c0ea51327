"""Count the samples whose scores differ between two runs, and list the largest drops.

The gate, `harness diff` and sites use it. The scores are those of units, such as all questions
about one image.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import counted
from harness.leaderboards.unit_values import unit_values
from harness.scores import Better, Metric, UnitScore

MAX_SHOWN = 10  # units that are listed
DECIMALS = 4
"""Decimals to which a sample's score is compared: as many as the pages of a site show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleChange:
    """Scores of one unit in two runs."""

    sample: str
    """Official id of the unit's first sample, as `harness explain` takes it."""
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleChanges:
    """Numbers of samples whose headline differs, and the units with the largest drops."""

    worse: int
    better: int
    total: int
    worst: tuple[SampleChange, ...]
    """At most `MAX_SHOWN` units that got worse, the largest drop first; ties in the task's
    order."""

    def __str__(self) -> str:
        """Return the counts as text: `7 of 36 samples changed: 5 worse, 2 better`."""
        changed, samples = self.worse + self.better, counted(self.total, "sample")
        if not changed:
            return f"none of {samples} changed"
        return f"{changed:,} of {samples} changed: {self.worse:,} worse, {self.better:,} better"


def rounded(value: float | None) -> float | None:
    """Round a sample's score to `DECIMALS`, as pages show and counts compare it."""
    return None if value is None else round(value, DECIMALS)


def sample_changes(
    metrics: Sequence[Metric], a: Sequence[UnitScore], b: Sequence[UnitScore]
) -> SampleChanges | None:
    """Return the changes between runs a and b; None if the metric has no value of one unit.

    The metric is the last of `metrics`; `b` has the units of `a` in any order.
    """
    if any(metric.corpus is not None for metric in metrics):
        return None
    before, after = unit_values(metrics, a), unit_values(metrics, b)
    return changes_between(a, before, after, better=metrics[-1].better)


def changes_between(
    units: Sequence[UnitScore],
    before: Mapping[str, float | None],
    after: Mapping[str, float | None],
    *,
    better: Better,
) -> SampleChanges:
    """Return the changes between two sets of values, by the units' names.

    Args:
        units: All units; a unit without a value before or after counts as unchanged.
        before: Value of each unit.
        after: Value of each unit after the change.
        better: Direction of the metric.
    """
    sign = 1 if better == "higher" else -1
    drops: list[tuple[float, int, SampleChange]] = []
    for unit in units:
        old, new = rounded(before[unit.unit]), rounded(after[unit.unit])
        if old is not None and new is not None and new != old:
            change = SampleChange(sample=unit.samples[0], before=old, after=new)
            drops.append((sign * (old - new), len(unit.samples), change))
    drops.sort(key=lambda drop: -drop[0])
    return SampleChanges(
        worse=sum(count for drop, count, _ in drops if drop > 0),
        better=sum(count for drop, count, _ in drops if drop < 0),
        total=sum(len(unit.samples) for unit in units),
        worst=tuple(change for drop, _, change in drops[:MAX_SHOWN] if drop > 0),
    )

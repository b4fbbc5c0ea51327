"""The samples of which two runs' scores differ, the largest drops first."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.scores import Metric, UnitScore, value_of

SHOWN = 10
SAME = 1e-9  # scores closer than this are equal but for rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleChange:
    """Scores of one unit in two runs."""

    sample: str
    """Official id of the unit's first sample, as `harness explain` takes it."""
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleChanges:
    """Number of units that changed, and the largest drops."""

    worse: int
    better: int
    total: int
    worst: tuple[SampleChange, ...]
    """At most `SHOWN` units that got worse, the largest drop first; ties in the task's order."""


def sample_changes(
    metrics: Sequence[Metric], a: Sequence[UnitScore], b: Sequence[UnitScore]
) -> SampleChanges | None:
    """Return the units whose score differs; None where the metric has no value of one unit.

    The metric is the last of `metrics`; `b` has the units of `a` in any order.
    """
    if any(metric.corpus is not None for metric in metrics):
        return None
    name, sign = metrics[-1].name, 1 if metrics[-1].better == "higher" else -1
    after = {unit.unit: unit for unit in b}
    drops: list[tuple[float, SampleChange]] = []
    for unit in a:
        old, new = (
            value_of(metrics, [unit_score], name) for unit_score in (unit, after[unit.unit])
        )
        if old is not None and new is not None and abs(new - old) > SAME:
            change = SampleChange(sample=unit.samples[0], before=old, after=new)
            drops.append((sign * (old - new), change))
    drops.sort(key=lambda drop: -drop[0])
    worse = [change for drop, change in drops if drop > 0]
    return SampleChanges(
        worse=len(worse),
        better=len(drops) - len(worse),
        total=len(a),
        worst=tuple(worse[:SHOWN]),
    )

"""Two runs on the same samples: the difference, its interval, and what could have been seen.

Both runs answered the same questions, so the difficulty of a picture cancels in the difference;
a paired comparison sees far smaller changes than two separate intervals do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError, UsageError
from harness.scores import Better, Metric, Totals, UnitScore
from harness.statistics.bootstrap import CELLS, blocks, check_level, percentiles, weighted
from harness.statistics.clusters import (
    FloatArray,
    GroupSums,
    counted_groups,
    group_sums,
    numbers,
)

BoolArray: TypeAlias = NDArray[np.bool_]

POWER = 0.8
SAME = 1e-12  # differences closer than this are equal but for rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One metric of run b against run a, on the same units."""

    metric: str
    better: Better
    a: float | None
    b: float | None
    difference: float | None
    """b - a; None where a run has no number."""
    interval: tuple[float, float] | None
    """Paired percentile interval of the difference, from the bootstrap over groups."""
    p_value: float | None
    """Two-sided p of the swap test: that each group's two results are exchangeable."""
    detectable: float | None
    """The smallest true loss that would have been shown with 80 % power.

    `(z(1 - (1 - level) / 2) + z(0.8))` times the bootstrap's standard error of the difference;
    None where there is no interval, or where the runs do not differ anywhere.
    """
    n_groups: int
    n_units: int
    level: float

    @property
    def loss(self) -> float | None:
        """How much worse b is, whatever the metric's direction; negative is a gain."""
        if self.difference is None:
            return None
        return -self.difference if self.better == "higher" else self.difference

    @property
    def is_worse(self) -> bool:
        """Whether the whole interval lies on the side where b is worse."""
        return self._beyond(lower_side=self.better == "higher")

    @property
    def is_better(self) -> bool:
        """Whether the whole interval lies on the side where b is better."""
        return self._beyond(lower_side=self.better == "lower")

    def _beyond(self, *, lower_side: bool) -> bool:
        if self.interval is None:
            return False
        return self.interval[1] < -SAME if lower_side else self.interval[0] > SAME


def compare(
    metrics: Sequence[Metric],
    a: Sequence[UnitScore],
    b: Sequence[UnitScore],
    *,
    name: str,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare run b with run a on metric `name`.

    The interval is a cluster bootstrap: each resample draws the same groups for both runs. The p
    value is a swap test: under the hypothesis that the two runs are exchangeable within each
    group, the runs' results for a random half of the groups are swapped and the difference is
    computed anew; p is the share of swaps whose difference is at least as large in size as the
    one seen. For a mean with equal weights this is the cluster sign-flip test. All 2^k swaps of
    the k groups in which the runs differ are listed where these are at most `resamples`;
    otherwise `resamples` random ones are drawn and p = (1 + hits) / (1 + resamples).

    Args:
        metrics: The protocol's metrics, each after those that it is derived from.
        a: The units of the first run (the baseline), in any order.
        b: The units of the second run (the candidate); the same units.
        name: The metric to compare. Corpus metrics get a difference, but no interval and no p.
        resamples: Number of bootstrap draws and, at most, of swaps.
        level: Level of the interval.
        seed: Seeds Philox.

    Raises:
        DataError: the runs do not hold the same units, or group them differently.
        UsageError: there is no such metric.
    """
    check_level(level)
    used = needed(metrics, name)
    check_same_units(a, b)
    first, second = group_sums(used, a), group_sums(used, b)
    value_a, value_b = _total(used, a, name), _total(used, b, name)
    differences = None
    if min(counted_groups(used, sums).get(name, 0) for sums in (first, second)) >= 2:
        differences = (
            weighted(used, second, resamples=resamples, seed=seed)[name]
            - weighted(used, first, resamples=resamples, seed=seed)[name]
        )
    return Comparison(
        metric=name,
        better=used[-1].better,
        a=value_a,
        b=value_b,
        difference=None if value_a is None or value_b is None else value_b - value_a,
        interval=None if differences is None else percentiles(differences, level),
        p_value=None
        if differences is None
        else swap_test(used, first, second, name=name, swaps=resamples, seed=seed),
        detectable=None if differences is None else detectable(differences, level),
        n_groups=len(first.groups),
        n_units=len(a),
        level=level,
    )


def needed(metrics: Sequence[Metric], name: str) -> tuple[Metric, ...]:
    """Metric `name` and what it is derived from, in an order that can be computed, it last."""
    known = {metric.name: metric for metric in metrics}
    if name not in known:
        raise UsageError(f"metric {name!r}", expected=" or ".join(known), found="another name")
    parts = (part for above in known[name].of for part in needed(metrics, above))
    return (*dict.fromkeys(parts), known[name])


def check_same_units(a: Sequence[UnitScore], b: Sequence[UnitScore]) -> None:
    """Raise DataError unless two runs hold the same units once each, grouped alike."""
    groups: list[dict[str, str]] = []
    for which, units in (("first", a), ("second", b)):
        groups.append({unit.unit: unit.group for unit in units})
        if len(groups[-1]) != len(units):
            raise DataError(
                f"the {which} run",
                expected="each unit once",
                found=f"{len(units)} lines for {len(groups[-1])} units",
            )
    first, second = groups
    if first.keys() != second.keys():
        raise DataError(
            "two runs to compare",
            expected="the same units in both",
            found="; ".join(
                f"{len(missing)} missing in the {which} ({_some(missing)})"
                for which, missing in (
                    ("first", second.keys() - first.keys()),
                    ("second", first.keys() - second.keys()),
                )
                if missing
            ),
            fix="Evaluate both on the same samples.",
        )
    moved = {unit for unit, group in first.items() if second[unit] != group}
    if moved:
        raise DataError(
            "two runs to compare",
            expected="the same group of each unit in both",
            found=f"{len(moved)} units in another group ({_some(moved)})",
        )


def swap_test(
    metrics: Sequence[Metric],
    a: GroupSums,
    b: GroupSums,
    *,
    name: str,
    swaps: int,
    seed: int,
) -> float:
    """Two-sided p value of the exchangeability of two runs within each group; see `compare`.

    A swap after which nothing counts is taken for an extreme one, which can only raise p.
    """
    differ = ((a.above != b.above) | (a.below != b.below)).any(axis=1)
    count = int(np.count_nonzero(differ))
    exact = count < 63 and 2**count <= swaps
    seen = abs(_swapped(metrics, a, b, differ=differ, which=np.zeros((1, count)), name=name)[0])
    hits = 0
    for which in _all_swaps(count) if exact else _some_swaps(count, swaps, seed):
        values = _swapped(metrics, a, b, differ=differ, which=which, name=name)
        hits += int(np.count_nonzero(~(np.abs(values) < seen - SAME)))
    return hits / 2**count if exact else (1 + hits) / (1 + swaps)


def _swapped(
    metrics: Sequence[Metric],
    a: GroupSums,
    b: GroupSums,
    *,
    differ: BoolArray,
    which: FloatArray,
    name: str,
) -> FloatArray:
    """Differences after swapping the groups marked 1 in each row of `which`.

    `which` is swaps × groups that differ; the groups that do not differ stay as they are.
    """

    def value(stays: GroupSums, comes: GroupSums) -> FloatArray:
        above, below = (
            one[~differ].sum(axis=0) + (1 - which) @ one[differ] + which @ other[differ]
            for one, other in ((stays.above, comes.above), (stays.below, comes.below))
        )
        return numbers(metrics, stays.columns, above=above, below=below)[name]

    return value(b, a) - value(a, b)


def _all_swaps(groups: int) -> Iterator[FloatArray]:
    codes = np.arange(2**groups)[:, None]
    yield ((codes >> np.arange(groups)) & 1).astype(np.float64)


def _some_swaps(groups: int, swaps: int, seed: int) -> Iterator[FloatArray]:
    # Not the stream that the bootstrap draws from, though of the same seed.
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, 1])))
    for rows in blocks(swaps, max(1, CELLS // groups)):
        yield generator.integers(2, size=(rows, groups)).astype(np.float64)


def detectable(differences: FloatArray, level: float) -> float | None:
    """The smallest true loss that the interval would exclude 0 for, with 80 % power.

    From the standard error that the resampled differences show, taking them for normal; None if
    they do not vary.
    """
    finite = differences[np.isfinite(differences)]
    error = float(np.std(finite)) if finite.size else 0.0
    if error <= SAME:
        return None
    normal = NormalDist()
    return (normal.inv_cdf((1 + level) / 2) + normal.inv_cdf(POWER)) * error


def _total(metrics: Sequence[Metric], units: Sequence[UnitScore], name: str) -> float | None:
    totals = Totals(tuple(metrics))
    names = {metric.name for metric in metrics}
    for unit in units:
        totals.add({key: value for key, value in unit.scores.items() if key in names})
    return totals.values()[name]


def _some(ids: set[str]) -> str:
    listed = sorted(ids)
    return ", ".join(listed[:5]) + (", …" if len(listed) > 5 else "")

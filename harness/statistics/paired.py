"""Two runs on the same samples: the difference, its interval, and the detectable difference.

Both runs answered the same questions, so the difficulty of an image cancels in the difference;
a paired comparison sees far smaller changes than two separate intervals do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal

import numpy as np

from harness.errors import DataError, counted
from harness.scores import Better, Metric, UnitScore, value_of
from harness.statistics.bootstrap import RESAMPLES, weighted_metrics
from harness.statistics.clusters import counted_groups, group_sums, of_corpora
from harness.statistics.clusters import dependencies_of as dependencies_of
from harness.statistics.detection import RightAnswers
from harness.statistics.jackknife import BLOCKS, jackknife_error, replicates
from harness.statistics.power import POWER, errors_to_show, minimum_detectable
from harness.statistics.quantiles import check_level, half_width, two_sided_p
from harness.statistics.shares import weights_of_shares
from harness.statistics.swaps import SAME, Swaps, swap_test
from harness.statistics.text import number, p_value

FEWEST_ANSWERS, FEWEST_GROUPS = 24, 8
"""Right or wrong answers, and groups of other scores, from which on a detectable loss is named: of
fewer, what one pair of runs shows says too little of another pair."""
POWERS = ((60, "80 %"), (24, "77 to 84 %"), (0, "74 to 84 %"))
"""Power of the detectable loss in simulations, by the least number of groups; 80 % is to 2 points:
`tests/statistics/test_detection.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Comparison of run b with run a in one metric, on the same units."""

    metric: str
    better: Better
    a: float | None
    b: float | None
    difference: float | None
    """b - a; None where a run has no number."""
    interval: tuple[float, float] | None
    """Paired interval of the difference, by the test of `p_value`: it leaves 0 out exactly where p
    is at most `1 - level`."""
    p_value: float | None
    """Two-sided p of the swap test: that each group's two results are exchangeable; for the
    jackknife, of the t test on the difference (None if it is the same whatever is left out)."""
    detectable: float | None
    """The smallest true loss that would have been shown with 80 % power.

    Of shares of right answers as `detection.RightAnswers` has it; of other numbers
    `power.errors_to_show` standard errors, a loss that is the same for every group. None where
    there is no interval, where the difference does not vary, where there are fewer than
    `FEWEST_GROUPS` or `FEWEST_ANSWERS`, or where no loss of answers would have been shown so often.
    """
    n_groups: int
    n_units: int
    level: float
    n_answered: int | None = None
    """Number of samples that one of the runs answered, or both; None: not counted."""
    method: Literal["swaps", "jackknife"] = "swaps"
    """Method that gave the interval and p."""
    swaps: Swaps | None = field(default=None, repr=False, compare=False)
    """Result of the swap test, if that is the method."""
    by_formula: float | None = field(default=None, repr=False, compare=False)
    """`(t(1 - (1 - level) / 2) + t(0.8))` times the standard error of the difference, t with the
    number of groups less one as degrees of freedom."""
    answers: RightAnswers | None = field(default=None, repr=False, compare=False)
    """Right answers of both runs, if the metric is a share of them."""

    @property
    def loss(self) -> float | None:
        """Amount by which b is worse, whatever the metric's direction; negative is a gain."""
        if self.difference is None:
            return None
        return -self.difference if self.better == "higher" else self.difference

    @property
    def is_worse(self) -> bool:
        """True if b is shown to be worse: the whole interval is on that side and p is small."""
        return self._share_beyond(lower_side=self.better == "higher")

    @property
    def is_better(self) -> bool:
        """True if b is shown to be better: the whole interval is on that side."""
        return self._share_beyond(lower_side=self.better == "lower")

    def smallest_shown(self, tests: int = 1) -> float | None:
        """Return `detectable` where this is one of so many tests, which Holm's method corrects."""
        if tests == 1 or self.detectable is None:
            return self.detectable
        level = 1 - (1 - self.level) / tests
        if self.answers is not None:
            return self.answers.detectable(level=level, power=POWER)
        degrees = self.n_groups - 1
        strict, usual = (
            errors_to_show(level=confidence, degrees=degrees) for confidence in (level, self.level)
        )
        return self.detectable * strict / usual

    @property
    def is_empty(self) -> bool:
        """True if neither run answered any sample, so that nothing was compared."""
        return self.n_answered == 0

    def groups_needed(self, tests: int = 1) -> int:
        """Return the number of groups from which on this test can show a difference.

        `tests`: as in `smallest_shown`.
        """
        return 2 if self.method == "jackknife" else groups_to_show(self.level, tests=tests)

    @property
    def power(self) -> str:
        """The power with which `detectable` was shown in simulations, in words."""
        return next(words for fewest, words in POWERS if self.n_groups >= fewest)

    def verdict(self, b: str = "B", *, tests: int = 1, adjusted_p: float | None = None) -> str:
        """Return the comparison as one sentence, without a full stop.

        Args:
            b: Name of the second run.
            tests: Number of comparisons whose p values are corrected together.
            adjusted_p: The corrected p value, which then decides; None: the comparison's own.
        """
        p = self.p_value if adjusted_p is None else adjusted_p
        corrected = f" (corrected for {tests} tasks)" if tests > 1 else ""
        samples = counted(self.n_units, "sample")
        if self.n_groups != self.n_units:
            samples += f" in {counted(self.n_groups, 'group')}"
        if self.is_empty:
            return f"nothing was compared: neither run answered any of {samples}"
        if self.difference is None:
            without = [name for name, value in (("A", self.a), (b, self.b)) if value is None]
            return f"no comparison: {' and '.join(without)} without a number"
        if self.interval is not None and (p is None or p <= 1 - self.level + SAME):
            low, high = sorted(abs(end) for end in self.interval)
            size = f"{number(abs(self.difference))} ({number(low)} to {number(high)})"
            evidence = f", {p_value(p)}" if p is not None else ""
            if evidence and adjusted_p is not None:
                evidence += corrected
            if self.is_worse or self.is_better:
                return f"{b} is {'worse' if self.is_worse else 'better'} by {size}{evidence}"
        if self.interval is not None and self.by_formula is None and abs(self.difference) <= SAME:
            return f"no difference: the same result on {samples}"
        if self.n_groups < (needed := self.groups_needed(tests)):
            return f"no difference shown; {samples} are too few to show one ({needed} groups can)"
        if (size_shown := self.smallest_shown(tests)) is None:
            is_named = self.n_units >= FEWEST_ANSWERS
            what = "show a difference" if is_named else "estimate which difference they would show"
            return f"no difference shown; {samples} are too few to {what}"
        size = f"{number(size_shown)} or more in {self.power} of cases{corrected}"
        return f"no difference shown; {samples} would show a difference of {size}"

    def to_json(self) -> dict[str, object]:
        """Plain data, without what was counted on the way."""
        left_out = ("swaps", "by_formula", "answers")
        return {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if item.name not in left_out
        }

    def _share_beyond(self, *, lower_side: bool) -> bool:
        if self.interval is None:
            return False
        return self.interval[1] < -SAME if lower_side else self.interval[0] > SAME


def groups_to_show(level: float, *, tests: int = 1) -> int:
    """Return the number of groups from which on the swap test can show a difference.

    Its p value of n groups is at least 2^(1 - n), which Holm's method multiplies by `tests`.

    >>> groups_to_show(0.95), groups_to_show(0.95, tests=3)
    (6, 7)
    """
    return 1 + math.ceil(math.log2(tests / (1 - level)) - 1e-9)


def compare(
    metrics: Sequence[Metric],
    a: Sequence[UnitScore],
    b: Sequence[UnitScore],
    *,
    name: str,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
    blocks: int = BLOCKS,
) -> Comparison:
    """Compare run b with run a on metric `name`.

    Interval and p are those of one test, so that they never contradict each other: the swap test
    over groups (`swaps.swap_test`), which is exact however few groups there are or differ. Its
    interval is scaled by the standard error of a cluster bootstrap, whose resamples draw the same
    groups for both runs. Metrics of corpora have neither sums to resample nor results to swap:
    there the groups are left out by blocks, of both runs the same, and interval and p are those
    of a t test with the jackknife's standard error of the difference.

    Args:
        metrics: The protocol's metrics, each after those that it is derived from.
        a: The units of the first run (the baseline), in any order.
        b: The units of the second run (the candidate); the same units.
        name: The metric to compare.
        resamples: Number of bootstrap draws and, at most, of swaps.
        level: Level of the interval.
        seed: Seeds the draws.
        blocks: At most how often a corpus function is called for each run, less one.

    Raises:
        DataError: the runs do not hold the same units, or group them differently.
        UsageError: there is no such metric, or an argument is out of range.
    """
    check_level(level)
    used = dependencies_of(metrics, name)
    check_same_units(a, b)
    value_a, value_b = value_of(used, a, name), value_of(used, b, name)
    plain = Comparison(
        metric=name,
        better=used[-1].better,
        a=value_a,
        b=value_b,
        difference=None if value_a is None or value_b is None else value_b - value_a,
        interval=None,
        p_value=None,
        detectable=None,
        n_groups=len({unit.group for unit in a}),
        n_units=len(a),
        level=level,
        n_answered=_answered(a, b),
    )
    if name in of_corpora(used):
        return _left_out(plain, used, a, b, blocks=blocks, seed=seed)
    return _with_bootstrap(plain, used, a, b, resamples=resamples, seed=seed)


def _answered(a: Sequence[UnitScore], b: Sequence[UnitScore]) -> int:
    """Return the number of samples that are sure to be answered in `a` or `b`, unit by unit."""
    second = {unit.unit: unit.failed for unit in b}
    return sum(len(unit.samples) - min(unit.failed, second[unit.unit]) for unit in a)


def _with_bootstrap(
    plain: Comparison,
    used: Sequence[Metric],
    a: Sequence[UnitScore],
    b: Sequence[UnitScore],
    *,
    resamples: int,
    seed: int,
) -> Comparison:
    """Add interval and p of the bootstrap and the swap test, where they can be computed."""
    name = plain.metric
    first, second = group_sums(used, a), group_sums(used, b)
    if min(counted_groups(used, sums).get(name, 0) for sums in (first, second)) < 2:
        return plain
    drawn_a, drawn_b = weighted_metrics(used, [first, second], resamples=resamples, seed=seed)
    differences = drawn_b[name] - drawn_a[name]
    finite = differences[np.isfinite(differences)]
    error = float(np.std(finite)) if finite.size else 0.0
    test = swap_test(used, first, second, name=name, count=resamples, seed=seed)
    low, high = test.interval(plain.level, error=error, groups=plain.n_groups)
    if used[-1].better == "higher" and _are_shares(a, name) and _are_shares(b, name):
        low, high = max(low, -1.0), min(high, 1.0)
    plain = replace(plain, interval=(low, high), p_value=test.p_value, swaps=test)
    if error <= SAME:
        return plain
    formula = minimum_detectable(error, level=plain.level, degrees=plain.n_groups - 1)
    answers = None if used[-1].derived else RightAnswers.of(a, b, name)
    size = None
    if answers is not None and plain.n_units >= FEWEST_ANSWERS:
        size = answers.detectable(level=plain.level, power=POWER)
    elif answers is None and plain.n_groups >= FEWEST_GROUPS:
        degrees = plain.n_groups - 1
        unbiased = error * math.sqrt(plain.n_groups / degrees)  # the bootstrap divides by groups
        size = errors_to_show(level=plain.level, degrees=degrees) * unbiased
    return replace(plain, detectable=size, by_formula=formula, answers=answers)


def _are_shares(units: Sequence[UnitScore], name: str) -> bool:
    weights = weights_of_shares(units, name)
    return weights is not None and weights.size > 0


def _left_out(
    plain: Comparison,
    used: Sequence[Metric],
    a: Sequence[UnitScore],
    b: Sequence[UnitScore],
    *,
    blocks: int,
    seed: int,
) -> Comparison:
    """Add interval and p of the jackknife, where it can be computed."""
    plain = replace(plain, method="jackknife")
    if (difference := plain.difference) is None:
        return plain
    first, second = (replicates(used, units, blocks=blocks, seed=seed) for units in (a, b))
    degrees = min(run.degrees(plain.metric) for run in (first, second))
    error = jackknife_error(
        difference,
        second.without[plain.metric] - first.without[plain.metric],
        sizes=first.sizes,
    )
    if error is None or degrees < 1:
        return plain
    reach = half_width(plain.level, degrees=degrees) * error
    plain = replace(plain, interval=(difference - reach, difference + reach))
    if error <= SAME:
        return replace(plain, p_value=1.0 if abs(difference) <= SAME else None)
    formula = minimum_detectable(error, level=plain.level, degrees=degrees)
    p_value = two_sided_p(difference / error, degrees=degrees)
    size = errors_to_show(level=plain.level, degrees=degrees) * error
    return replace(plain, p_value=p_value, detectable=size, by_formula=formula)


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
    lacking = {"first": second.keys() - first.keys(), "second": first.keys() - second.keys()}
    if any(lacking.values()):
        raise DataError(
            "two runs to compare",
            expected="the same units in both",
            found="; ".join(
                f"{len(missing)} missing in the {which} ({_some_ids(missing)})"
                for which, missing in lacking.items()
                if missing
            ),
            fix="Evaluate both on the same samples.",
        )
    moved = {unit for unit, group in first.items() if second[unit] != group}
    if moved:
        raise DataError(
            "two runs to compare",
            expected="the same group of each unit in both",
            found=f"{len(moved)} units in another group ({_some_ids(moved)})",
        )


def _some_ids(ids: set[str]) -> str:
    listed = sorted(ids)
    return ", ".join(listed[:5]) + (", …" if len(listed) > 5 else "")

"""Comparison of two runs on the same samples: difference, interval, p value, detectable loss.

`compare` takes the `UnitScore`s of both runs; boards, the gate and `harness compare` print the
`Comparison`. Both runs answered the same questions, so the difficulty of an image cancels in the
difference: a paired comparison shows far smaller changes than two separate intervals do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Literal

import numpy as np

from harness.errors import DataError, counted
from harness.scores import Better, Mean, Metric, Ratio, Statistic, UnitScore, value_of
from harness.statistics.bootstrap import RESAMPLES, weighted_metrics
from harness.statistics.clusters import counted_groups, group_sums, of_corpora
from harness.statistics.clusters import dependencies_of as dependencies_of
from harness.statistics.detection import RightAnswers
from harness.statistics.jackknife import DEFAULT_BLOCKS, jackknife_error, replicates
from harness.statistics.power import POWER, errors_to_show, minimum_detectable
from harness.statistics.quantiles import check_level, half_width, two_sided_p
from harness.statistics.swaps import ROUNDING_ERROR, Swaps, swap_test
from harness.statistics.text import number, p_value

MIN_ANSWERS, MIN_GROUPS = 24, 8
"""Least number of units (for shares of right answers) and of differing groups (for other scores)
for which a detectable loss is stated. From these on the stated loss is shown in 76 to 84 % of
simulations; with one differing group in 66 to 68 %: docs/design/statistics.md."""

MAX_PARTS = 8
"""Largest number of parts of a derived metric whose range is looked for."""
ESTIMATE = "estimate which difference they would show"


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
    """Paired interval of the difference, by the test of `p_value`: it excludes 0 exactly if p is at
    most `1 - level`."""
    p_value: float | None
    """Two-sided p of the swap test, whose hypothesis is that each group's two results are
    exchangeable; for the jackknife, of the t test on the difference (None if the difference does
    not change whatever block is left out)."""
    detectable: float | None
    """The smallest true loss that would have been shown with 80 % power.

    For shares of right answers it is `detection.RightAnswers.detectable`; for other numbers
    `power.errors_to_show` standard errors, a loss that is the same for every group. None: there is
    no interval, the difference does not vary, there are fewer than `MIN_GROUPS` or
    `MIN_ANSWERS`, or no loss of answers would have been shown so often. If fewer than `MIN_GROUPS`
    differ, the number is uncertain, and the verdict does not state it.
    """
    n_groups: int
    """Number of images or videos: samples of one are not independent."""
    n_differing: int
    """Number of groups in which the two runs' scores differ."""
    n_units: int
    """Number of samples, or of sets of samples that are scored together."""
    n_samples: int
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
        """True if b is shown to be worse: the whole interval is on the worse side of 0."""
        return self._interval_beyond_0(lower_side=self.better == "higher")

    @property
    def is_better(self) -> bool:
        """True if b is shown to be better: the whole interval is on the better side of 0."""
        return self._interval_beyond_0(lower_side=self.better == "lower")

    def smallest_shown(self, tests: int = 1) -> float | None:
        """Return `detectable` if this is one of several tests, corrected by Holm's method."""
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

    def verdict(self, b: str = "B", *, tests: int = 1, adjusted_p: float | None = None) -> str:
        """Return the comparison as one sentence, without a full stop.

        Args:
            b: Name of the second run.
            tests: Number of comparisons whose p values are corrected together.
            adjusted_p: The corrected p value, which then decides; None: the comparison's own.
        """
        p = self.p_value if adjusted_p is None else adjusted_p
        corrected = f" (corrected for {tests} tasks)" if tests > 1 else ""
        samples = counted(self.n_samples, "sample")
        if self.n_groups != self.n_samples:
            samples += f" of {groups_text(self.n_groups)}"
        if self.is_empty:
            return f"nothing was compared: neither run answered any of {samples}"
        if self.difference is None:
            without = [name for name, value in (("A", self.a), (b, self.b)) if value is None]
            return f"no comparison: {' and '.join(without)} without a number"
        if self.interval is not None and (p is None or p <= 1 - self.level + ROUNDING_ERROR):
            low, high = sorted(abs(end) for end in self.interval)
            size = f"{number(abs(self.difference))} ({number(low)} to {number(high)})"
            evidence = f", {p_value(p)}" if p is not None else ""
            if evidence and adjusted_p is not None:
                evidence += corrected
            if self.is_worse or self.is_better:
                return f"{b} is {'worse' if self.is_worse else 'better'} by {size}{evidence}"
        is_constant = self.interval is not None and self.by_formula is None
        if self.n_differing == 0 or (is_constant and abs(self.difference) <= ROUNDING_ERROR):
            return f"no difference: the same result on {samples}"
        if self.n_groups < (needed := self.groups_needed(tests)):
            return (
                f"no difference shown; {samples} are too few to show one "
                f"({groups_text(needed)} can)"
            )
        if self.answers is None and self.n_differing < MIN_GROUPS:
            fewest = f"{MIN_GROUPS} images or videos"
            if self.n_groups < MIN_GROUPS:
                return f"no difference shown; {samples} are too few to {ESTIMATE} ({fewest} can)"
            return (
                f"no difference shown; the results changed on {self.n_differing} of "
                f"{groups_text(self.n_groups)}, too few to {ESTIMATE} ({fewest} can)"
            )
        if (size_shown := self.smallest_shown(tests)) is None:
            what = "show a difference" if self.n_units >= MIN_ANSWERS else ESTIMATE
            return f"no difference shown; {samples} are too few to {what}"
        size = f"{number(size_shown)} or more in about 80 % of cases{corrected}"
        return f"no difference shown; {samples} would show a difference of {size}"

    def to_json(self) -> dict[str, object]:
        """Return plain data, without intermediate results."""
        left_out = ("swaps", "by_formula", "answers")
        return {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if item.name not in left_out
        }

    def _interval_beyond_0(self, *, lower_side: bool) -> bool:
        """Return True if the whole interval is below 0, or above it."""
        if self.interval is None:
            return False
        return (
            self.interval[1] < -ROUNDING_ERROR if lower_side else self.interval[0] > ROUNDING_ERROR
        )


def groups_text(number: int) -> str:
    """Return a number of groups in words.

    >>> groups_text(1), groups_text(24)
    ('1 image or video', '24 images or videos')
    """
    return counted(number, "image or video", "images or videos")


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
    blocks: int = DEFAULT_BLOCKS,
) -> Comparison:
    """Compare run b with run a on metric `name`.

    Interval and p value are of one test, so that they never contradict each other: the swap test
    over groups (`swaps.swap_test`), which is exact for any number of groups. Its interval is scaled
    by the standard error of a cluster bootstrap, whose resamples draw the same groups for both
    runs. Corpus metrics have neither sums to resample nor results to swap: for them the same blocks
    of groups are left out of both runs, and interval and p value are those of a t test with the
    jackknife's standard error of the difference.

    Args:
        metrics: The protocol's metrics, each after those that it is derived from.
        a: The units of the first run (the baseline), in any order.
        b: The units of the second run (the candidate); the same units.
        name: The metric to compare.
        resamples: Number of bootstrap draws and, at most, of swaps.
        level: Level of the interval.
        seed: Seed of the draws.
        blocks: A corpus function is called at most once more than this for each run.

    Raises:
        DataError: the runs do not hold the same units, or group them differently.
        UsageError: there is no such metric, or an argument is out of range.
    """
    check_level(level)
    used = dependencies_of(metrics, name)
    check_same_units(a, b)
    value_a, value_b = value_of(used, a, name), value_of(used, b, name)
    comparison = Comparison(
        metric=name,
        better=used[-1].better,
        a=value_a,
        b=value_b,
        difference=None if value_a is None or value_b is None else value_b - value_a,
        interval=None,
        p_value=None,
        detectable=None,
        n_groups=len({unit.group for unit in a}),
        n_differing=_differing(used, a, b),
        n_units=len(a),
        n_samples=sum(len(unit.samples) for unit in a),
        level=level,
        n_answered=_answered(a, b),
    )
    if name in of_corpora(used):
        return _with_jackknife(comparison, used, a, b, blocks=blocks, seed=seed)
    return _with_swap_test(comparison, used, a, b, resamples=resamples, seed=seed)


def _differing(used: Sequence[Metric], a: Sequence[UnitScore], b: Sequence[UnitScore]) -> int:
    """Return the number of groups in which a score of the metrics in `used` differs."""
    second = {unit.unit: unit.scores for unit in b}
    return len(
        {
            unit.group
            for unit in a
            for metric in used
            if unit.scores.get(metric.name) != second[unit.unit].get(metric.name)
        }
    )


def _answered(a: Sequence[UnitScore], b: Sequence[UnitScore]) -> int:
    """Return a lower bound of the number of samples that run a or run b answered.

    It is not exact, as a unit has only the number of its failed samples, not their ids.
    """
    second = {unit.unit: unit.failed for unit in b}
    return sum(len(unit.samples) - min(unit.failed, second[unit.unit]) for unit in a)


def _with_swap_test(
    comparison: Comparison,
    used: Sequence[Metric],
    a: Sequence[UnitScore],
    b: Sequence[UnitScore],
    *,
    resamples: int,
    seed: int,
) -> Comparison:
    """Add interval, p value and detectable loss by the swap test.

    The comparison is returned unchanged if the metric counts in fewer than two groups of a run.
    """
    name = comparison.metric
    first, second = group_sums(used, a), group_sums(used, b)
    if min(counted_groups(used, sums).get(name, 0) for sums in (first, second)) < 2:
        return comparison
    drawn_a, drawn_b = weighted_metrics(used, [first, second], resamples=resamples, seed=seed)
    differences = drawn_b[name] - drawn_a[name]
    finite = differences[np.isfinite(differences)]
    error = float(np.std(finite)) if finite.size else 0.0
    test = swap_test(used, first, second, name=name, count=resamples, seed=seed)
    low, high = test.interval(comparison.level, error=error, groups=comparison.n_groups)
    if used[-1].better == "higher" and _is_within_1(used, [*a, *b]):
        low, high = max(low, -1.0), min(high, 1.0)
    comparison = replace(comparison, interval=(low, high), p_value=test.p_value, swaps=test)
    if error <= ROUNDING_ERROR:
        return comparison
    formula = minimum_detectable(error, level=comparison.level, degrees=comparison.n_groups - 1)
    answers = None if used[-1].derived else RightAnswers.of(a, b, name)
    size = None
    if answers is not None and comparison.n_units >= MIN_ANSWERS:
        size = answers.detectable(level=comparison.level, power=POWER)
    elif answers is None and comparison.n_groups >= MIN_GROUPS:
        degrees = comparison.n_groups - 1
        # The bootstrap's variance has the divisor n; the unbiased one has n - 1.
        unbiased = error * math.sqrt(comparison.n_groups / degrees)
        size = errors_to_show(level=comparison.level, degrees=degrees) * unbiased
    return replace(comparison, detectable=size, by_formula=formula, answers=answers)


def _is_within_1(used: Sequence[Metric], units: Sequence[UnitScore]) -> bool:
    """Return True if a metric's number is from 0 to 1 for any mixture of these units.

    All scores that it is made of are then from 0 to 1, and a derived metric is where its parts are
    0 or 1: enough for the means and products in use.
    """
    for metric in used:
        if metric.derived is not None:
            if len(metric.inputs) > MAX_PARTS:
                return False
            corners = np.array(list(product((0.0, 1.0), repeat=len(metric.inputs))))
            with np.errstate(all="ignore"):
                numbers = np.asarray(metric.derived(*corners.T))
            if not np.all((numbers >= 0) & (numbers <= 1)):  # false for NaN too
                return False
        elif not all(
            _score_within_1(score)
            for unit in units
            if (score := unit.scores.get(metric.name)) is not None
        ):
            return False
    return True


def _score_within_1(score: Statistic) -> bool:
    """Return True for a mean or a ratio from 0 to 1."""
    match score:
        case Mean():
            return 0 <= score.value <= 1 and score.weight >= 0
        case Ratio():
            return 0 <= score.numerator <= score.denominator
    return False


def _with_jackknife(
    comparison: Comparison,
    used: Sequence[Metric],
    a: Sequence[UnitScore],
    b: Sequence[UnitScore],
    *,
    blocks: int,
    seed: int,
) -> Comparison:
    """Add interval, p value and detectable loss by the jackknife; unchanged if it has no error."""
    comparison = replace(comparison, method="jackknife")
    if (difference := comparison.difference) is None:
        return comparison
    first, second = (replicates(used, units, blocks=blocks, seed=seed) for units in (a, b))
    degrees = min(run.degrees(comparison.metric) for run in (first, second))
    error = jackknife_error(
        difference,
        second.without[comparison.metric] - first.without[comparison.metric],
        sizes=first.sizes,
    )
    if error is None or degrees < 1:
        return comparison
    reach = half_width(comparison.level, degrees=degrees) * error
    comparison = replace(comparison, interval=(difference - reach, difference + reach))
    if error <= ROUNDING_ERROR:
        return replace(comparison, p_value=1.0 if abs(difference) <= ROUNDING_ERROR else None)
    formula = minimum_detectable(error, level=comparison.level, degrees=degrees)
    p_value = two_sided_p(difference / error, degrees=degrees)
    size = errors_to_show(level=comparison.level, degrees=degrees) * error
    return replace(comparison, p_value=p_value, detectable=size, by_formula=formula)


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
    """Return the first five ids, for an error."""
    listed = sorted(ids)
    return ", ".join(listed[:5]) + (", …" if len(listed) > 5 else "")

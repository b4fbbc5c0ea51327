"""The statistics against slow and plain computations of the same, and against hand-worked values.

A check takes the modules to test, so that the mutation tests can hand it spoiled ones, and
returns a line for everything that differs.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest

from harness.errors import HarnessError
from harness.scores import Corpus, Mean, Metric, Ratio, Totals, UnitScore
from harness.statistics import (
    analytic,
    bootstrap,
    clusters,
    detection,
    holm,
    jackknife,
    paired,
    power,
    pseudo,
    quantiles,
    repeats,
    resampling,
    sequential,
    shares,
    swaps,
    variance,
)

Modules: TypeAlias = Any
Check: TypeAlias = Callable[[Modules], Iterator[str]]

GIOU = Metric("giou")
CIOU = Metric("ciou", epsilon=0.5)
BOTH = Metric("both", inputs=("giou", "ciou"), derived=lambda g, c: (g + 2 * c) / 3)
LENGTH = Metric("length", corpus=lambda items: len(set(items)) + sum(items) / len(items))
SUM = Metric("sum", inputs=("length", "both"), derived=lambda length, both: length + both)
METRICS = (GIOU, CIOU, BOTH, LENGTH, SUM)


def unit(name: object, group: object, **scores: Any) -> UnitScore:
    return UnitScore(
        unit=str(name),
        group=str(group),
        samples=(str(name),),
        categories={},
        failed=0,
        scores=scores,
    )


def a_run(seed: int, *, groups: int = 7) -> list[UnitScore]:
    """Units of all kinds of metrics; some count in nothing, groups differ in size."""
    random = np.random.default_rng(seed)
    return [
        unit(
            f"{group}/{number}",
            group,
            giou=Mean(float(random.random()), weight=float(random.integers(1, 4))),
            ciou=Ratio(float(random.integers(1, 50)), float(random.integers(50, 90))),
            **({"length": Corpus(pair)} if (group + number) % 3 else {}),
        )
        for group in range(groups)
        for number in range(1 + group % 3)
        for pair in [tuple(random.integers(9, size=2).tolist())]
    ]


def numbers(units: list[UnitScore]) -> dict[str, float]:
    totals = Totals(METRICS)
    for one in units:
        totals.add(one.scores)
    return {name: math.nan if value is None else value for name, value in totals.values().items()}


def by_group(units: list[UnitScore]) -> list[list[UnitScore]]:
    names = sorted({one.group for one in units})
    return [[one for one in units if one.group == name] for name in names]


def differ(what: str, found: Any, expected: Any, *, within: float = 1e-12) -> Iterator[str]:
    """A line unless all numbers are equal but for rounding, or both are None."""
    if found is None or expected is None:
        alike = found is expected
    else:
        one, other = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
        alike = one.shape == other.shape and np.allclose(one, other, rtol=within, atol=within)
    if not alike:
        yield f"{what}: {found!r}, by hand {expected!r}"


def raises(what: str, call: Callable[[], object]) -> Iterator[str]:
    try:
        call()
    except HarnessError:
        return
    yield f"{what}: no error"


def resample(
    modules: Modules, metrics: Sequence[Metric], units: Sequence[UnitScore], **given: int
) -> dict[str, np.ndarray]:
    """The values in each resample of units."""
    sums = modules.clusters.group_sums(metrics, units)
    return modules.bootstrap.resample_metrics(metrics, sums, **given)


def bootstrap_by_units(modules: Modules) -> Iterator[str]:
    """Whole groups of units, scored anew for every resample."""
    units = a_run(3)
    groups = by_group(units)
    drawn = np.random.Generator(np.random.SFC64(11)).integers(7, size=(150, 7))
    values = [numbers([one for index in row for one in groups[index]]) for row in drawn]
    got = modules.bootstrap.intervals(METRICS, units, resamples=150, seed=11, level=0.9)
    for name in ("giou", "ciou", "both"):
        expected = np.quantile([value[name] for value in values], [0.05, 0.95])
        yield from differ(f"interval of {name}", got[name], expected)
    pair = resample(modules, METRICS, units, resamples=150, seed=11)
    yield from differ("resamples", pair["both"], [value["both"] for value in values])
    yield from differ("kinds", sorted(map(len, pair)), [4, 4, 4])
    found = modules.bootstrap.percentiles(np.array([0, 1, 2, 3, math.nan]), 0.5)
    yield from differ("resamples without a number", found, (0.75, 2.25))
    rare = [*units, unit("x", "0", rare=Mean(1.0))]
    for group, counts in (("0", False), ("1", True)):
        rare.append(unit(f"y{group}", group, rare=Mean(2.0)))
        got = modules.bootstrap.intervals((Metric("rare"),), rare, resamples=50)
        yield from differ("counted in two groups", got["rare"] is not None, counts)
    yield from raises("no resamples", lambda: modules.bootstrap.intervals((), [], resamples=0))
    yield from raises("level 1", lambda: modules.bootstrap.intervals((), [], level=1.0))


def draws_are_multinomial(modules: Modules) -> Iterator[str]:
    for groups, resamples in ((5, 40), (1, 3), (300, 7)):
        stream = np.random.Generator(np.random.SFC64(4)).integers(groups, size=(resamples, groups))
        expected = [[Counter(row.tolist())[g] for g in range(groups)] for row in stream]
        found = list(modules.resampling.draws(groups, resamples=resamples, seed=4))
        yield from differ(f"draws of {groups}", np.concatenate(found), expected)
    whole = np.concatenate(list(modules.resampling.swaps(70, count=9, seed=1)))
    yield from differ("swaps", whole.shape, (9, 70))
    yield from differ("what swaps are", sorted({*whole.ravel().tolist()}), [0, 1])
    modules.resampling.BLOCK_CELLS = 140
    for name, arguments in (("draws", {"resamples": 9}), ("swaps", {"count": 9})):
        parts = list(getattr(modules.resampling, name)(70, seed=1, **arguments))
        modules.resampling.BLOCK_CELLS = 2**17
        one = list(getattr(modules.resampling, name)(70, seed=1, **arguments))
        modules.resampling.BLOCK_CELLS = 140
        yield from differ(f"blocks of {name}", [len(part) for part in parts], [2, 2, 2, 2, 1])
        yield from differ(f"{name} in blocks", np.concatenate(parts), np.concatenate(one))
    modules.resampling.BLOCK_CELLS = 2**17
    listed = modules.resampling.all_swaps(3)
    yield from differ("all swaps", sorted(listed.tolist()), sorted(product((0, 1), repeat=3)))
    yield from differ("no swap first", listed[0], [0, 0, 0])


def sums_are_exact(modules: Modules) -> Iterator[str]:
    """To the last bit what the rounded exact sum is, in any order of the rows."""
    random = np.random.default_rng(0)
    weights = random.integers(0, 4, size=(6, 50)).astype(float)
    weights[0] = 0
    weights[0, 3] = 200
    # Whole numbers, fractions, and numbers of very different size, either sign.
    table = np.stack(
        [
            random.integers(0, 999, 50),
            random.random(50),
            10.0 ** random.uniform(-3, 6, 50) * random.choice([-1, 1], 50),
            random.random(50) * 1e-30,
        ],
        axis=1,
    )
    order = random.permutation(50)
    one = modules.clusters.Summands.of_table(table, limit=200).weighted_sums(weights)
    other = modules.clusters.Summands.of_table(table[order], limit=200).weighted_sums(
        weights[:, order]
    )
    expected = [[math.fsum(row * column) for column in table.T] for row in weights]
    expected[0] = [200 * value for value in table[3]]
    if not np.array_equal(one, other):
        yield "another order of rows gives other bits"
    yield from differ("exact sums", one / expected, np.ones((6, 4)), within=1e-15)
    parts = modules.clusters.Summands.of_table(table, limit=200).parts
    yield from differ("whole numbers need no low part", parts.shape, (50, 7))
    yield from differ(
        "tiny", modules.clusters.coarse(np.full((2, 1), 5e-324), limit=2), [[5e-324]] * 2
    )


def formulas(modules: Modules) -> Iterator[str]:
    """A ratio's delta method written out; t quantiles from a printed table."""
    units = a_run(5)
    found = modules.analytic.estimates(METRICS, units)
    for name, epsilon in (("giou", 0.0), ("ciou", 0.5)):
        sums = []
        for group in by_group(units):
            parts = [one.scores[name] for one in group]
            pairs = [
                (p.value * p.weight, p.weight)
                if isinstance(p, Mean)
                else (p.numerator, p.denominator)
                for p in parts
            ]
            sums.append([sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)])
        a, b = np.array(sums).T
        ratio = a.sum() / (b.sum() + epsilon)
        error = math.sqrt(7 / 6 * sum((x - ratio * y) ** 2 for x, y in sums)) / (b.sum() + epsilon)
        yield from differ(f"value of {name}", found[name].value, ratio)
        yield from differ(f"error of {name}", found[name].error, error)
        ends = (ratio - 2.4469 * error, ratio + 2.4469 * error)  # t, 6 degrees, 97.5 %
        yield from differ(f"interval of {name}", found[name].interval, ends, within=1e-5)
    yield from differ("no formula", [found["both"], found["sum"]] == [None, None], True)
    values = [0.2, 0.9, 0.4, 0.4]
    mean = modules.analytic.clustered_mean(values, "abcd")
    yield from differ("s / √n", mean.error, np.std(values, ddof=1) / 2)
    doubled = modules.analytic.clustered_mean(values * 2, "abcdabcd", weights=[1] * 4 + [3] * 4)
    yield from differ("copies", (doubled.value, doubled.error), (mean.value, mean.error))
    ratio = modules.analytic.clustered_mean([1 / 2, 1 / 2, 1 / 3, 0], "xyzw", weights=[2, 4, 9, 0])
    yield from differ(
        "a group without a denominator", (ratio.n_groups, ratio.error), (3, 0.0611), within=1e-3
    )
    for what, call in {
        "one group": lambda: modules.analytic.clustered_mean([1, 2], "aa"),
        "lengths": lambda: modules.analytic.clustered_mean([1, 2], "abc"),
        "NaN": lambda: modules.analytic.clustered_mean([1, math.nan], "ab"),
        "level": lambda: modules.analytic.estimate(np.ones(2), np.ones(2), level=95),
    }.items():
        yield from raises(what, call)


def tables(modules: Modules) -> Iterator[str]:
    """Quantiles as printed in tables."""
    for share, degrees, expected in (
        (0.975, None, 1.95996),
        (0.8, None, 0.84162),
        (0.975, 9, 2.26216),
        (0.95, 2, 2.91999),
    ):
        found = modules.quantiles.quantile(share, degrees=degrees)
        yield from differ(f"quantile {share} {degrees}", found, expected, within=1e-5)
    yield from differ("90 %", modules.quantiles.half_width(0.9), 1.64485, within=1e-5)
    for statistic in (-3.25, 3.25):
        found = modules.quantiles.two_sided_p(statistic, degrees=9)
        yield from differ("p", found, 0.01, within=1e-4)


def left_out_by_units(modules: Modules) -> Iterator[str]:
    """The textbook's delete-one jackknife over whole groups, and the weighted one in loops."""
    units = a_run(8)
    groups = by_group(units)
    whole = numbers(units)
    without = [numbers([u for g in groups if g is not out for u in g]) for out in groups]
    made = modules.jackknife.replicates(METRICS, units)
    found = modules.bootstrap.intervals(METRICS, units)
    for name in whole:
        values = np.array([one[name] for one in without])
        error = math.sqrt(6 / 7 * ((values - values.mean()) ** 2).sum())
        yield from differ(f"{name} without groups", made.without[name], values)
        yield from differ(f"error of {name}", made.error(name), error)
        if name in ("length", "sum"):
            reach = 3.18245 * error  # four groups have items: 3 degrees
            ends = (whole[name] - reach, whole[name] + reach)
            yield from differ(f"interval of {name}", found[name], ends, within=1e-5)
    sizes = np.array([3, 2, 2])
    values, n, full = np.array([0.3, 0.9, 0.5]), 7, 0.6
    centre = 3 * full - sum((1 - m / n) * x for m, x in zip(sizes, values, strict=True))
    squares = [
        ((n / m * full - (n / m - 1) * x) - centre) ** 2 / (n / m - 1)
        for m, x in zip(sizes, values, strict=True)
    ]
    got = modules.jackknife.jackknife_error(full, values, sizes=sizes)
    yield from differ("unequal blocks", got, math.sqrt(sum(squares) / 3))
    yield from differ("NaN", modules.jackknife.jackknife_error(math.nan, values, sizes=sizes), None)


def left_out_in_blocks(modules: Modules) -> Iterator[str]:
    units = a_run(2, groups=20)
    made = modules.jackknife.replicates(METRICS, units, blocks=6, seed=3)
    yield from differ("sizes", sorted(made.sizes), [3, 3, 3, 3, 4, 4])
    yield from differ("degrees", made.degrees("giou"), 5)
    names = sorted({one.group for one in units})
    block = dict(zip(names, modules.jackknife.assign_blocks(20, blocks=6, seed=3), strict=True))
    if [block[name] for name in names] == [index % 6 for index in range(20)]:
        yield "blocks in the order of names"
    for number in range(6):
        expected = numbers([one for one in units if block[one.group] != number])
        for name, value in expected.items():
            yield from differ(f"{name} without block", made.without[name][number], value)
    calls = []
    counting = Metric("n", corpus=lambda items: float(calls.append(len(items)) or len(items)))
    held = [unit(i, i, n=Corpus((i,))) for i in range(500)]
    modules.bootstrap.intervals((counting,), held)
    yield from differ("calls", len(calls), 201)
    once = [unit("one", 0, n=Corpus((1,))), unit("two", 1, giou=Mean(1.0))]
    kind = Metric("kind", inputs=("n",), derived=np.nan_to_num)
    lone = modules.bootstrap.intervals((counting, GIOU, kind), once)
    yield from differ("one group of items", lone["n"], None)
    yield from differ("derived from one group of items", lone["kind"], None)
    yield from raises("one block", lambda: modules.jackknife.replicates(METRICS, units, blocks=1))
    yield from raises("nothing", lambda: modules.jackknife.replicates(METRICS, []))


def swaps_of_units(modules: Modules) -> Iterator[str]:
    """All swaps of whole groups, listed, for a ratio and a derived metric."""
    a = a_run(20, groups=6)
    b = [*a_run(21, groups=6)[:-3], *a[-3:]]  # the last group does not differ
    first, second = by_group(a), by_group(b)
    for name in ("ciou", "both", "giou"):
        found = []
        for flips in product((False, True), repeat=6):
            one = [u for x, y, f in zip(first, second, flips, strict=True) for u in (y if f else x)]
            two = [u for x, y, f in zip(first, second, flips, strict=True) for u in (x if f else y)]
            found.append(numbers(two)[name] - numbers(one)[name])
        used = modules.clusters.dependencies_of(METRICS, name)
        sums = [modules.clusters.group_sums(used, run) for run in (a, b)]
        listed = modules.swaps.swap_differences(used, *sums, name=name)(
            modules.resampling.all_swaps(5)
        )
        yield from differ(f"swaps of {name}", sorted(listed), sorted(found[::2]))
        p = np.mean([abs(value) >= abs(found[0]) - 1e-12 for value in found])
        got = modules.paired.compare(METRICS, a, b, name=name, resamples=64, level=0.9, seed=5)
        yield from differ(f"p of {name}", got.p_value, p)
        yield from differ(f"difference of {name}", got.difference, found[0])
        drawn = [resample(modules, METRICS, run, resamples=64, seed=5)[name] for run in (b, a)]
        error = np.std(drawn[0] - drawn[1])
        minimum = sorted(map(abs, found))[-7]  # at most 6 of 64 swaps may be as extreme
        squares = 6 * error**2 + found[0] ** 2
        reach = minimum * math.sqrt((squares - found[0] ** 2) / (squares - minimum**2))
        ends = (found[0] - reach, found[0] + reach)
        yield from differ(f"interval of {name}", got.interval, ends)
        size = (2.01505 + 0.91954) * error  # t, 5 degrees
        yield from differ(f"by formula {name}", got.by_formula, size, within=1e-5)
        yield from differ(f"detectable {name}", got.detectable, None)  # six groups
    for seed in range(3):
        few = modules.paired.compare(METRICS, a, b, name="giou", resamples=6, seed=seed)
        hits = few.p_value * 7
        yield from differ("drawn swaps", [hits, 0 < hits <= 7], [round(hits), True])


def studentised(modules: Modules) -> Iterator[str]:
    """The interval of a mean is that of all studentised sign flips; never on two sides of p."""
    for seed, shift in ((0, 0.5), (1, 1.0), (2, 0.0), (3, 9.0)):
        values = np.random.default_rng(seed).normal(shift, 1, 8)
        flips = values * np.array(list(product((1, -1), repeat=8)))
        means = flips.mean(axis=1)
        scores = np.abs(means) / (flips.std(axis=1) / math.sqrt(8))
        reach = np.sort(scores)[::-1][12] * values.std() / math.sqrt(8)  # 12 of 256 are 4.7 %
        test = modules.swaps.Swaps(means[0], means)
        limit = 2.36462 * values.std() / math.sqrt(8)
        found = test.interval(0.95, error=values.std() / math.sqrt(8), groups=8)
        capped = min(reach, max(test.critical(0.95), limit))
        yield from differ("interval", found, (means[0] - capped, means[0] + capped), within=1e-5)
        p = np.mean(np.abs(means) >= abs(means[0]) - 1e-12)
        yield from differ("p", test.p_value, p)
        yield from differ("one rule", found[0] > 1e-12 or found[1] < -1e-12, p <= 0.05)
    same = modules.swaps.Swaps(0.25, np.array([0.25, -0.25] * 16))
    yield from differ("no spread, no p", same.interval(0.95, error=0.0, groups=9), (0, 0.5))
    lost = modules.swaps.Swaps(0.25, np.array([0.25, math.nan, -0.5, 0.1]))
    yield from differ("nothing counts", (lost.p_value, lost.critical(0.9)), (0.75, 0.5))
    five = modules.swaps.Swaps(0.6, np.array([0.6, 1.0, -1.0, *[0.2, -0.2] * 14, -0.6]))
    error = math.sqrt(0.14)
    reach = 2.77645 * error  # t, 4 degrees; without this end it would be 3.4
    ends = (0.6 - reach, 0.6 + reach)
    yield from differ(
        "too few groups", five.interval(0.95, error=error, groups=5), ends, within=1e-5
    )


def answers_right_or_wrong(modules: Modules) -> Iterator[str]:
    """The exact interval from the binomial distribution's own sums."""

    def tail(right: int, n: int, p: float) -> float:
        return math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(right, n + 1))

    low, high = modules.shares.exact(0.75, size=12, groups=10**9, level=0.9)
    yield from differ("ends", (tail(9, 12, low), 1 - tail(10, 12, high)), (0.05, 0.05), within=1e-6)
    few = modules.shares.exact(0.75, size=12, groups=5, level=0.9)
    less = 12 * (1.64485 / 2.13185) ** 2
    same = modules.shares.exact(0.75, size=less, groups=10**9, level=0.9)
    yield from differ("t for few groups", few, same, within=1e-4)
    for value, name in ((1.0, "right"), (0.0, "wrong")):
        all_of_them = [unit(f"{g}/{i}", g, m=Mean(value)) for g in range(9) for i in range(3)]
        ends = modules.shares.exact(value, size=9, groups=9, level=0.95)
        got = modules.bootstrap.intervals((Metric("m"),), all_of_them, resamples=9)
        yield from differ(f"all {name}", got["m"], ends)
        less = Metric("m", better="lower")
        got = modules.bootstrap.intervals((less,), all_of_them, resamples=9)
        yield from differ(f"an error of {value}", got["m"], (value, value))
        ratios = [unit(g, g, m=Ratio(value * (g + 1), g + 1)) for g in range(4)]
        ends = modules.shares.exact(value, size=100 / 30, groups=4, level=0.95)
        got = modules.bootstrap.intervals((Metric("m"),), ratios, resamples=9)
        yield from differ(f"ratio of {value}", got["m"], ends)
        parts = (Metric("m"), Metric("half", inputs=("m",), derived=lambda m: m * m))
        ends = modules.shares.exact(value, size=4, groups=4, level=0.95)
        got = modules.bootstrap.intervals(parts, ratios, resamples=9)
        yield from differ(f"derived from {value}", got["half"], ends)
    alone = [unit(i, i, m=Mean(float(i < 9))) for i in range(12)]
    got = modules.bootstrap.intervals((Metric("m"),), alone, resamples=9)["m"]
    size = 0.75 * 0.25 / (np.std([1] * 9 + [0] * 3, ddof=1) ** 2 / 12)
    ends = modules.shares.exact(0.75, size=size, groups=12, level=0.95)
    yield from differ("each a group", got, ends)
    pairs = [unit(i, i % 6, m=Mean(float(i % 6 < 4))) for i in range(12)]  # copies
    got = modules.bootstrap.intervals((Metric("m"),), pairs, resamples=9)["m"]
    size = (2 / 9) / (np.std([1] * 4 + [0] * 2, ddof=1) ** 2 / 6)
    ends = modules.shares.exact(2 / 3, size=size, groups=6, level=0.95)
    yield from differ("copies are no further answers", got, ends)
    even = [unit(i, i // 2, m=Mean(float(i % 2))) for i in range(8)]  # groups that are alike
    got = modules.bootstrap.intervals((Metric("m"),), even, resamples=9)["m"]
    ends = modules.shares.exact(0.5, size=8, groups=4, level=0.95)
    yield from differ("no more answers than there are", got, ends)
    half = [unit(i, i, m=Mean(0.5)) for i in range(4)]
    got = modules.bootstrap.intervals((Metric("m"),), half, resamples=9)["m"]
    yield from differ("all alike, inside", got, (0.5, 0.5))
    other = [*alone, unit("x", "x", m=Mean(0.5))]
    got = modules.bootstrap.intervals((Metric("m"),), other, resamples=50, seed=3)["m"]
    plain = resample(modules, (Metric("m"),), other, resamples=50, seed=3)["m"]
    yield from differ("no share", got, np.quantile(plain, [0.025, 0.975]))


def pairs_of_corpora(modules: Modules) -> Iterator[str]:
    """A t test on the jackknife of the difference."""
    a, b = a_run(30, groups=6), a_run(31, groups=6)
    first, second = by_group(a), by_group(b)
    for name in ("length", "sum"):
        values = np.array(
            [
                numbers([u for i, g in enumerate(second) if i != out for u in g])[name]
                - numbers([u for i, g in enumerate(first) if i != out for u in g])[name]
                for out in range(6)
            ]
        )
        error = math.sqrt(5 / 6 * ((values - values.mean()) ** 2).sum())
        difference = numbers(b)[name] - numbers(a)[name]
        got = modules.paired.compare(METRICS, a, b, name=name)
        yield from differ(f"difference of {name}", got.difference, difference)
        reach = 3.18245 * error  # four groups have items: 3 degrees
        ends = (difference - reach, difference + reach)
        yield from differ(f"interval of {name}", got.interval, ends, within=1e-5)
        size = (3.18245 + 0.97847) * error
        yield from differ(f"by formula {name}", got.by_formula, size, within=1e-5)
        size = got.detectable / error  # in standard errors, whose quotient by the true one is u
        u = math.sqrt(8 / (3 * math.pi))
        spread = math.sqrt(1 + (size**2 + 3.18245**2) * (1 - u**2))
        beyond = (size - 3.18245) * u / spread
        yield from differ(f"power of {name}", beyond, 0.84162, within=1e-4)
        if (got.p_value < 0.05) != (abs(difference) > reach) or got.method != "jackknife":
            yield f"p of {name}: {got.p_value} by the {got.method}"
    same = modules.paired.compare(METRICS, a, a, name="length")
    yield from differ("p of equal runs", same.p_value, 1.0)
    yield from differ("interval of equal runs", same.interval, (0, 0))
    yield from differ("nothing to detect", same.detectable, None)


def directions(modules: Modules) -> Iterator[str]:
    """What is worse, by direction and interval."""
    low = [unit(i, i, up=Mean(i / 9), down=Mean(i / 9)) for i in range(8)]
    high = [unit(i, i, up=Mean(i / 9 + 0.1), down=Mean(i / 9 + 0.1)) for i in range(8)]
    metrics = (Metric("up"), Metric("down", better="lower"))
    for name, a, b, output in (
        ("up", low, high, (-0.1, False, True)),
        ("up", high, low, (0.1, True, False)),
        ("down", low, high, (0.1, True, False)),
        ("down", high, low, (-0.1, False, True)),
        ("up", low, low, (0.0, False, False)),
    ):
        got = modules.paired.compare(metrics, a, b, name=name, resamples=50)
        yield from differ(f"{name}", (got.loss, got.is_worse, got.is_better), output)
        yield from differ(f"detectable {name}", got.detectable, None)
    yield from raises("no such metric", lambda: modules.paired.compare(metrics, low, low, name="x"))
    for other in (low[:-1], [*low, low[0]], [*low[:-1], unit(7, "elsewhere", up=Mean(1.0))]):
        yield from raises(
            "other units",
            lambda other=other: modules.paired.compare(metrics, low, other, name="up"),
        )


def answers_lost(modules: Modules) -> Iterator[str]:
    """Right answers by group and the losses of them that are shown, worked by hand."""
    a = [unit(k, k // 2, n=Mean(float(v))) for k, v in enumerate((1, 0, 1, 1, 0, 0))]
    b = [unit(k, k // 2, n=Mean(float(v))) for k, v in enumerate((1, 1, 0, 1, 1, 0))]
    found = modules.detection.RightAnswers.of(a, b, "n")
    pairs = {(1, 2): 1 / 3, (2, 1): 1 / 3, (0, 1): 1 / 6, (1, 0): 1 / 6}
    yield from differ("pairs", sorted(found.pairs), sorted(pairs))
    yield from differ("their shares", [found.pairs[one] for one in pairs], [*pairs.values()])
    yield from differ("counts", (found.groups, found.answers), (3, 6))
    heavy = [unit(0, 0, n=Mean(1.0, weight=2.0)), *a[1:]]
    yield from differ("weighted", modules.detection.RightAnswers.of(heavy, b, "n"), None)
    # Of 2 right answers against 3, each lost with 0.5, the difference is 2, 1, 0, -1.
    moments = modules.detection._moments({(2, 3): 1.0}, 0.5)
    yield from differ("moments", moments, (0.5, 1.0, 1.25, 2.5))
    kept = modules.detection._binomial(2, 0.25)
    yield from differ("kept", kept, (0.0625, 0.375, 0.5625))
    groups, z = 100, 1.959964
    slope = z / (2 * math.sqrt(groups * 1.0))
    variance = 0.75 - 2 * slope * (1.25 - 0.5) + slope**2 * (2.5 - 1.0)
    beyond = (50 - 1 - z * 10) / math.sqrt(groups * variance)
    got = modules.detection.approximate_power({(2, 3): 1.0}, groups=groups, lost=0.5, level=0.95)
    yield from differ("shown", got, 0.5 * math.erfc(-beyond / math.sqrt(2)), within=1e-6)
    nothing = modules.detection.approximate_power({(0, 0): 1.0}, groups=9, lost=1.0, level=0.95)
    yield from differ("nothing right", nothing, 0.0)
    sure = modules.detection.approximate_power({(1, 1): 1.0}, groups=9, lost=1.0, level=0.95)
    yield from differ("all lost", sure, 1.0)
    groups = 2 * modules.detection.MAX_EXACT_GROUPS
    pairs = {(1, 1): 0.5, (0, 1): 0.25, (1, 0): 0.25}
    many = modules.detection.RightAnswers(pairs, groups, 2 * groups)
    size = many.detectable(level=0.95, power=0.8)
    lost = size * 2 / 0.75
    got = modules.detection.approximate_power(many.pairs, groups=groups, lost=lost, level=0.95)
    wanted = 0.8 + modules.detection.POWER_LOST_BY_SAMPLING / groups
    yield from differ("power of the detectable loss", got, wanted, within=1e-6)
    few = modules.detection.RightAnswers({(1, 0): 0.5, (0, 1): 0.5}, 5, 5)
    yield from differ("no loss of few", few.detectable(level=0.95, power=0.8), None)
    full = [unit(k, 0, n=Mean(1.0)) for k in range(201)]
    yield from differ("many in a group", modules.detection.RightAnswers.of(full, full, "n"), None)


def corrected(modules: Modules) -> Iterator[str]:
    """Worked by hand: sorted .005 .011 .02 .04 .9 times 5 4 3 2 1."""
    found = modules.holm.holm({"c": 0.02, "a": 0.005, "e": 0.9, "d": 0.04, "b": 0.011, "x": None})
    expected = {"c": 0.06, "a": 0.025, "e": 0.9, "d": 0.08, "b": 0.044, "x": None}
    for name, value in expected.items():
        yield from differ(f"Holm of {name}", found[name], value)
    falls = modules.holm.holm({1: 0.03, 2: 0.04, 3: 0.045})
    yield from differ("never below one before it", [*falls.values()], [0.09, 0.09, 0.09])
    yield from differ("at most 1", [*modules.holm.holm({1: 0.6, 2: 0.7}).values()], [1, 1])
    yield from differ("order of names", [*modules.holm.holm({2: 0.5, 1: 0.1})], [2, 1])
    yield from raises("p above 1", lambda: modules.holm.holm({1: 1.5}))
    yield from raises("p is NaN", lambda: modules.holm.holm({1: math.nan}))


def detectable(modules: Modules) -> Iterator[str]:
    """Bloom's multipliers: 2.80 for many groups, 3.145 with 9 degrees of freedom."""
    found = modules.power.minimum_detectable(0.02)
    yield from differ("z", found, 0.02 * 2.80159, within=1e-5)
    found = modules.power.minimum_detectable(1, level=0.9, power=0.9)
    yield from differ("level and power", found, 1.64485 + 1.28155, within=1e-5)
    found = modules.power.minimum_detectable(1, degrees=9)
    yield from differ("t", found, 2.26216 + 0.88340, within=1e-5)
    yield from raises("power", lambda: modules.power.minimum_detectable(1, power=1.0))


def choices_of_k(modules: Modules) -> Iterator[str]:
    """Every choice of k repeats, listed."""
    random = np.random.default_rng(0)
    real, right = random.random((4, 6)).round(1), random.integers(0, 2, (5, 6))
    for k in range(1, 7):
        chosen = list(combinations(range(6), k))
        for better, best in (("higher", max), ("lower", min)):
            expected = [np.mean([best(row[list(c)]) for c in chosen]) for row in real]
            found = modules.repeats.best_of_k(real, k=k, better=better)
            yield from differ(f"{better} of {k}", found, expected)
        expected = [np.mean([row[list(c)].any() for c in chosen]) for row in right]
        yield from differ(f"pass@{k}", modules.repeats.best_of_k(right, k=k), expected)
    yield from differ("avg@k", modules.repeats.best_of_k(real, k=1), [sum(row) / 6 for row in real])
    for what, call in {
        "k is 0": lambda: modules.repeats.best_of_k(right, k=0),
        "k is 7": lambda: modules.repeats.best_of_k(real, k=7),
        "NaN": lambda: modules.repeats.best_of_k([[math.nan]], k=1),
        "one row": lambda: modules.repeats.best_of_k([1, 0], k=1),
    }.items():
        yield from raises(what, call)


def analysis_of_variance(modules: Modules) -> Iterator[str]:
    """Sums of squares in loops over every number, and the expectations solved by hand."""
    for g, t, d in ((5, 3, 2), (4, 1, 3), (4, 3, 1), (3, 1, 1)):
        y = np.random.default_rng(g).normal(size=(g, t, d)) + np.arange(g)[:, None, None]
        y += np.arange(t)[:, None] + np.arange(d) / 2
        mean = y.mean()
        sums = np.zeros(5)
        for i, j, k in product(range(g), range(t), range(d)):
            group, cell = y[i].mean(), y[i, j].mean()
            training, run = y[:, j].mean(), y[:, j, k].mean()
            sums += np.square(
                [
                    group - mean,
                    training - mean,
                    run - training,
                    cell - group - training + mean,
                    y[i, j, k] - cell - run + training,
                ]
            )
        free = [g - 1, t - 1, t * (d - 1), (g - 1) * (t - 1), (g - 1) * t * (d - 1)]
        ms = dict(
            zip(
                "gtdcn", [s / f if f else 0.0 for s, f in zip(sums, free, strict=True)], strict=True
            )
        )
        raw = {
            "sample": (ms["g"] - (ms["c"] if t > 1 else ms["n"])) / (t * d),
            "training": (ms["t"] - ms["c"] - ms["d"] + ms["n"]) / (g * d) if t > 1 else None,
            "sample_training": (ms["c"] - ms["n"]) / d if t > 1 else None,
            "decoding": (ms["d"] - ms["n"]) / g if d > 1 else None,
            "sample_decoding": ms["n"] if d > 1 else None,
        }
        found = modules.variance.components(y)
        for name, value in raw.items():
            expected = None if value is None else max(value, 0)
            yield from differ(f"{name} of {g, t, d}", getattr(found, name), expected)
        below = [name for name, value in raw.items() if value is not None and value < 0]
        yield from differ("clipped", sorted(found.clipped) == sorted(below), True)
        if t > 1:
            terms, signs = [("g", 0), ("t", 1), ("c", 3)], (1, 1, -1)
        elif d > 1:
            terms, signs = [("g", 0), ("d", 2), ("n", 4)], (1, 1, -1)
        else:
            terms, signs = [("g", 0)], (1,)
        total = sum(sign * ms[name] for sign, (name, _) in zip(signs, terms, strict=True))
        degrees = total**2 / sum(ms[name] ** 2 / free[place] for name, place in terms)
        degrees = max(degrees, min(free[place] for _, place in terms[:2]))
        score = modules.variance.seeded_score(y, level=0.9)
        error = math.sqrt(total / y.size)
        yield from differ("mean", (score.value, score.error), (mean, error))
        yield from differ("degrees", score.degrees, degrees)
        reach = modules.quantiles.quantile(0.95, degrees=degrees) * error
        yield from differ("interval", score.interval, (mean - reach, mean + reach))
        yield from differ("over", len(score.over), 1 + (t > 1) + (d > 1))
    yield from differ("sources", [*split_of(modules)], [1.1, 3.05, 2.25])
    for what, wrong in {
        "flat": [[1, 2]],
        "one group": [[[1, 2]]],
        "NaN": [[[math.nan]], [[1]]],
    }.items():
        yield from raises(what, lambda wrong=wrong: modules.variance.components(wrong))


def split_of(modules: Modules) -> Iterator[float]:
    """Of 10 groups, 2 trainings, 2 decodings: 11/10, (6 + 1/10)/2, (8 + 10/10)/4."""
    made = modules.variance.Components(
        sample=11.0,
        training=6.0,
        decoding=8.0,
        sample_training=1.0,
        sample_decoding=10.0,
        clipped=(),
        groups=10,
        trainings=3,
        decodings=2,
    )
    yield from made.of_score(trainings=2, decodings=2).values()


def alternating(modules: Modules) -> Iterator[str]:
    """Trainings that differ less than chance: only the samples' mean square is left."""
    y = np.array([[[0.0], [1.0]], [[2.0], [1.0]], [[1.0], [1.0]]])
    score = modules.variance.seeded_score(y)
    yield from differ("error", score.error, math.sqrt(np.var(y.mean(axis=(1, 2)), ddof=1) / 3))
    yield from differ("degrees", score.degrees, 2)
    split = modules.variance.components(y)
    yield from differ("below 0", (split.training, len(split.clipped)), (0, 1))
    same = modules.variance.seeded_score(np.ones((3, 2, 2)))
    yield from differ("no variance", (*same.interval, same.degrees), (1, 1, 2))


def stand_ins(modules: Modules) -> Iterator[str]:
    """Their mean is the number, their s / √n the standard error."""
    units = a_run(9)
    whole, found = numbers(units), modules.analytic.estimates(METRICS, units)
    made = modules.jackknife.replicates(METRICS, units)
    for name, value in whole.items():
        stand = modules.pseudo.pseudo_values(METRICS, units, name=name)
        error = found[name].error if found[name] else made.error(name)
        # An epsilon in the denominator leaves a trace, far smaller for the official ones.
        within = 1e-2 if name == "ciou" else 1e-12
        yield from differ(f"mean of {name}", stand.mean(), value, within=within)
        yield from differ(
            f"s of {name}", np.std(stand, ddof=1) / math.sqrt(7), error, within=within
        )
    yield from differ("nothing", modules.pseudo.pseudo_values(METRICS, [], name="giou"), None)
    off = [unit(0, 0, giou=Mean(1.0)), unit(1, 1, giou=Mean(1.0))]
    yield from differ("no such item", modules.pseudo.pseudo_values(METRICS, off, name="ciou"), None)
    yield from differ("no corpus", modules.pseudo.pseudo_values(METRICS, off, name="length"), None)


def stopped(modules: Modules) -> Iterator[str]:
    """Wealth and decisions step by step, in plain numbers."""
    bets = [0.5**k for k in range(1, 9)]

    def reached(numbers: list[float], level: float) -> int | None:
        """The number of groups after which the mean wealth of the bettors suffices."""
        owned = [1.0] * len(bets)
        for place, one in enumerate(numbers, start=1):
            owned = [own * (1 + bet * one) for own, bet in zip(owned, bets, strict=True)]
            if sum(owned) / len(owned) >= 1 / (1 - level):
                return place
        return None

    for seed, drop in ((1, 0.4), (2, -0.1), (3, 0.05), (4, 0.9)):
        generator = np.random.default_rng(seed)
        sizes = generator.integers(1, 4, 200)
        totals = np.clip(generator.normal(-drop, 0.3, 200), -1, 1) * sizes
        if seed == 4:  # it turns round after a decision, so that both could be made
            totals[40:] *= -1
        worse = reached([-x / 3 for x in totals], 0.9)
        fine = reached([(x + 0.2 * n) / (3 * 1.2) for x, n in zip(totals, sizes, strict=True)], 0.9)
        both = {"worse": worse, "not worse": fine}
        made = {name: place for name, place in both.items() if place is not None}
        first = min(made, key=lambda name: made[name], default=None)
        expected = (first, made[first] if first else 200)
        found = modules.sequential.decide(totals, sizes, largest=3, margin=0.2, level=0.9)
        yield from differ(f"decision {seed}", found == expected, True)


CHECKS: dict[str, Check] = {
    function.__name__: function
    for function in (
        bootstrap_by_units,
        draws_are_multinomial,
        sums_are_exact,
        formulas,
        tables,
        left_out_by_units,
        left_out_in_blocks,
        swaps_of_units,
        studentised,
        answers_right_or_wrong,
        pairs_of_corpora,
        directions,
        answers_lost,
        corrected,
        detectable,
        choices_of_k,
        analysis_of_variance,
        alternating,
        stand_ins,
        stopped,
    )
}


@pytest.fixture(params=CHECKS)
def check(request: pytest.FixtureRequest) -> Check:
    return CHECKS[request.param]


@pytest.fixture
def checks() -> dict[str, Check]:
    return CHECKS


@pytest.fixture
def modules() -> SimpleNamespace:
    return SimpleNamespace(
        analytic=analytic,
        bootstrap=bootstrap,
        clusters=clusters,
        detection=detection,
        holm=holm,
        jackknife=jackknife,
        paired=paired,
        power=power,
        pseudo=pseudo,
        quantiles=quantiles,
        repeats=repeats,
        resampling=resampling,
        sequential=sequential,
        shares=shares,
        swaps=swaps,
        variance=variance,
    )

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from harness.errors import UsageError
from harness.scores import Corpus, Mean, Metric, Ratio, UnitScore
from harness.statistics import jackknife, resampling
from harness.statistics.bootstrap import intervals, resample_metrics
from harness.statistics.clusters import group_sums

GIOU = Metric("giou")
CIOU = Metric("ciou")
BOTH = Metric("both", inputs=("giou", "ciou"), derived=lambda g, c: (g + c) / 2)
CIDER = Metric("cider", corpus=len)
METRICS = (GIOU, CIOU, BOTH, CIDER)


def unit(name, group, **scores):
    return UnitScore(
        unit=str(name),
        group=str(group),
        samples=(str(name),),
        categories={},
        failed=0,
        scores=scores,
    )


def clustered(generator, *, groups, per_group, spread=0.15, noise=0.1):
    """Units whose groups share an effect, with a true mean of 0.5."""
    effects = generator.normal(0.5, spread, groups)
    return [
        unit(f"{g}/{i}", g, giou=Mean(float(effects[g] + generator.normal(0, noise))))
        for g in range(groups)
        for i in range(per_group)
    ]


def pairs(generator, *, groups):
    return [
        unit(
            f"{g}/{i}",
            g,
            giou=Mean(float(generator.random())),
            ciou=Ratio(float(generator.integers(0, 50)), float(generator.integers(50, 90))),
            cider=Corpus(("text",)),
        )
        for g in range(groups)
        for i in range(int(generator.integers(1, 4)))
    ]


def test_ignoring_the_groups_would_be_too_narrow():
    units = clustered(np.random.default_rng(1), groups=30, per_group=20)
    alone = [unit(u.unit, u.unit, **u.scores) for u in units]
    low, high = intervals((GIOU,), units)["giou"]
    narrow_low, narrow_high = intervals((GIOU,), alone)["giou"]
    assert high - low > 2 * (narrow_high - narrow_low)


def test_a_derived_metric_is_resampled_jointly_with_its_parts():
    generator = np.random.default_rng(5)
    units = [
        unit(i, i, giou=Mean(float(x)), ciou=Ratio(float(1 - x), 1.0))
        for i, x in enumerate(generator.random(50))
    ]
    got = intervals(METRICS, units)
    assert got["both"] == pytest.approx((0.5, 0.5))  # x and 1 - x cancel in every resample
    assert got["giou"][1] - got["giou"][0] > 0.05


def test_single_groups_have_no_interval():
    one = [unit(i, "same", giou=Mean(i / 9), cider=Corpus((i,))) for i in range(9)]
    assert intervals((GIOU, CIDER), one) == {"giou": None, "cider": None}
    assert intervals((GIOU, CIDER), []) == {"giou": None, "cider": None}


def test_a_corpus_and_what_is_derived_from_it_get_the_intervals_of_the_jackknife():
    sum_of = Metric("sum", inputs=("giou", "cider"), derived=lambda g, c: g + c)
    units = pairs(np.random.default_rng(2), groups=5)
    got = intervals((GIOU, CIDER, sum_of), units)
    assert got["cider"] == jackknife.intervals((CIDER,), units)["cider"]
    assert got["sum"][0] < got["sum"][1]
    assert got["giou"] == intervals((GIOU,), units)["giou"]


def test_a_metric_that_counts_in_one_group_only_has_no_interval():
    units = [unit(i, i, giou=Mean(0.5)) for i in range(5)]
    units.append(unit("x", "x", giou=Mean(0.5), ciou=Ratio(1, 2)))
    got = intervals((GIOU, CIOU, BOTH), units)
    assert got["ciou"] is None
    assert got["both"] is None
    assert got["giou"] is not None


def test_a_metric_that_counts_in_few_groups_is_resampled_where_it_counts():
    units = [unit(i, i, giou=Mean(0.5)) for i in range(8)]
    units += [unit(f"r{i}", f"r{i}", ciou=Ratio(i, 4)) for i in (1, 2)]
    low, high = intervals((GIOU, CIOU), units)["ciou"]
    assert (low, high) == (0.25, 0.5)


@pytest.mark.parametrize("cells", [1, 9 * 7, 2**20])
def test_resamples_in_blocks_are_those_in_one_to_the_last_bit(monkeypatch, cells):
    units = pairs(np.random.default_rng(4), groups=9)
    whole = resample_metrics(METRICS, group_sums(METRICS, units), resamples=100)
    monkeypatch.setattr(resampling, "BLOCK_CELLS", cells)
    in_blocks = resample_metrics(METRICS, group_sums(METRICS, units), resamples=100)
    assert whole.keys() == in_blocks.keys() == {"giou", "ciou", "both"}
    assert all(np.array_equal(whole[name], in_blocks[name]) for name in whole)


def test_the_memory_for_many_groups_is_bounded():
    units = [unit(i, i, giou=Mean(i % 7 / 7)) for i in range(3000)]
    intervals((GIOU,), units, resamples=10)
    tracemalloc.start()
    intervals((GIOU,), units, resamples=2000)  # 6 million weights would be 48 MB
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12e6


def test_it_agrees_with_scipy_but_for_chance():
    random = np.random.default_rng(8)
    above = random.random(60) * (below := random.integers(1, 9, 60).astype(float))
    units = [
        unit(i, i, giou=Mean(float(a)), ciou=Ratio(float(a), float(b)))
        for i, (a, b) in enumerate(zip(above, below, strict=True))
    ]
    ours = intervals((GIOU, CIOU), units, resamples=10_000)
    for name, data, statistic in (
        ("giou", (above,), np.mean),
        ("ciou", (above, below), lambda a, b, axis: a.sum(axis) / b.sum(axis)),
    ):
        theirs = bootstrap(
            data,
            statistic,
            paired=True,
            n_resamples=10_000,
            method="percentile",
            batch=2000,
            rng=np.random.default_rng(1),
        )
        # The density at the ends is that of a normal, 0.058 / error; so many resamples place an
        # end within 0.027 errors (one standard deviation), and two such ends within 0.16 (4.2).
        interval = theirs.confidence_interval
        assert ours[name] == pytest.approx(tuple(interval), abs=0.16 * theirs.standard_error)
        assert interval.high - interval.low > 3.5 * theirs.standard_error


def test_a_wider_level_contains_a_narrower_one():
    units = clustered(np.random.default_rng(6), groups=20, per_group=2)
    narrow = intervals((GIOU,), units, level=0.5)["giou"]
    wide = intervals((GIOU,), units, level=0.99)["giou"]
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_a_level_that_is_no_share_is_refused(level):
    with pytest.raises(UsageError, match="between 0 and 1"):
        intervals((GIOU,), [], level=level)


unit_lists = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.floats(0, 1, allow_subnormal=False),
        st.floats(0.25, 4),
        st.integers(0, 9),
    ),
    min_size=2,
    max_size=12,
).map(
    lambda rows: [
        unit(
            i,
            group,
            giou=Mean(value, weight),
            ciou=Ratio(float(part), 10.0),
            total=Corpus((value,)),
        )
        for i, (group, value, weight, part) in enumerate(rows)
    ]
)


@settings(max_examples=40, deadline=None)
@given(unit_lists, st.randoms(use_true_random=False))
def test_the_order_of_units_does_not_matter(units, random):
    shuffled = list(units)
    random.shuffle(shuffled)
    metrics = (GIOU, CIOU, BOTH, Metric("total", corpus=lambda items: sum(items) / len(items)))
    first = intervals(metrics, units, resamples=50, blocks=4)
    assert first == intervals(metrics, shuffled, resamples=50, blocks=4)


@settings(max_examples=40, deadline=None)
@given(unit_lists)
def test_an_interval_stays_within_the_values_of_its_groups(units):
    interval = intervals((GIOU,), units, resamples=50)["giou"]
    assert (interval is None) == (len({u.group for u in units}) < 2)
    if interval is not None:
        values = [u.scores["giou"].value for u in units]
        # A share, or as good as one, whose interval has a length at 0 and 1 too.
        if {round(value, 9) for value in values} <= {0, 1}:
            values = [0, 1]
        assert min(values) - 1e-9 <= interval[0] <= interval[1] <= max(values) + 1e-9


@settings(max_examples=40, deadline=None)
@given(unit_lists, st.floats(0.5, 8))
def test_scaling_every_weight_changes_nothing(units, factor):
    scaled = [
        unit(u.unit, u.group, giou=Mean(u.scores["giou"].value, u.scores["giou"].weight * factor))
        for u in units
    ]
    before = intervals((GIOU,), units, resamples=50)["giou"]
    after = intervals((GIOU,), scaled, resamples=50)["giou"]
    assert (before is None) == (after is None)
    if before is not None:
        assert after == pytest.approx(before, abs=1e-9)

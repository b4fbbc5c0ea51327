import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.scores import Corpus, Mean, Metric, Ratio, Totals, UnitScore
from harness.statistics import bootstrap
from harness.statistics.bootstrap import intervals, resampled

GIOU = Metric("giou")
CIOU = Metric("ciou")
BOTH = Metric("both", of=("giou", "ciou"), derived=lambda g, c: (g + c) / 2)
CIDER = Metric("cider", corpus=len)
METRICS = (GIOU, CIOU, BOTH, CIDER)


def unit(name, group, **scores):
    return UnitScore(
        unit=str(name), group=str(group), samples=(str(name),), categories={}, failed=0,
        scores=scores,
    )  # fmt: skip


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
            f"{g}/{i}", g,
            giou=Mean(float(generator.random())),
            ciou=Ratio(float(generator.integers(0, 50)), float(generator.integers(50, 90))),
            cider=Corpus(("text",)),
        )
        for g in range(groups)
        for i in range(int(generator.integers(1, 4)))
    ]  # fmt: skip


def test_the_interval_equals_a_brute_force_bootstrap_over_whole_groups():
    units = pairs(np.random.default_rng(3), groups=7)
    epsilon = Metric("ciou", epsilon=0.5)
    metrics = (GIOU, epsilon, BOTH)
    names = sorted({u.group for u in units})
    generator = np.random.Generator(np.random.Philox(11))
    values = {metric.name: [] for metric in metrics}
    for row in generator.integers(7, size=(400, 7)):
        totals = Totals(metrics)
        for index in row:
            for u in (u for u in units if u.group == names[index]):
                totals.add({k: v for k, v in u.scores.items() if k != "cider"})
        for name, value in totals.values().items():
            values[name].append(value)
    got = intervals(metrics, units, resamples=400, seed=11)
    for name, drawn in values.items():
        assert got[name] == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=1e-12)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        units = clustered(generator, groups=40, per_group=3)
        low, high = intervals((GIOU,), units, resamples=400, seed=trial)["giou"]
        hits += low <= 0.5 <= high
    assert 0.89 <= hits / 200 <= 0.99  # nominal 0.95; a correct 0.94 leaves this once in 10,000


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


def test_corpora_and_single_groups_have_no_interval():
    units = pairs(np.random.default_rng(2), groups=5)
    assert intervals(METRICS, units)["cider"] is None
    one = [unit(i, "same", giou=Mean(i / 9)) for i in range(9)]
    assert intervals((GIOU,), one) == {"giou": None}
    assert intervals((GIOU,), []) == {"giou": None}


def test_what_is_derived_from_a_corpus_has_no_interval():
    sum_of = Metric("sum", of=("giou", "cider"), derived=lambda g, c: g + c)
    units = pairs(np.random.default_rng(2), groups=5)
    assert intervals((GIOU, CIDER, sum_of), units)["sum"] is None


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


def test_resamples_in_blocks_are_the_resamples_in_one(monkeypatch):
    units = pairs(np.random.default_rng(4), groups=9)
    whole = resampled(METRICS, units, resamples=100)
    monkeypatch.setattr(bootstrap, "CELLS", 9 * 7)
    in_blocks = resampled(METRICS, units, resamples=100)
    np.testing.assert_allclose(in_blocks["both"], whole["both"], atol=1e-12)


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
        unit(i, group, giou=Mean(value, weight), ciou=Ratio(float(part), 10.0))
        for i, (group, value, weight, part) in enumerate(rows)
    ]
)


@settings(max_examples=40, deadline=None)
@given(unit_lists, st.randoms(use_true_random=False))
def test_the_order_of_units_does_not_matter(units, random):
    shuffled = list(units)
    random.shuffle(shuffled)
    first = intervals((GIOU, CIOU, BOTH), units, resamples=50)
    assert first == intervals((GIOU, CIOU, BOTH), shuffled, resamples=50)


@settings(max_examples=40, deadline=None)
@given(unit_lists)
def test_an_interval_stays_within_the_values_of_its_groups(units):
    interval = intervals((GIOU,), units, resamples=50)["giou"]
    assert (interval is None) == (len({u.group for u in units}) < 2)
    if interval is not None:
        values = [u.scores["giou"].value for u in units]
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

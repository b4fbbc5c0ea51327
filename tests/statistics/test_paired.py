from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataError, UsageError
from harness.scores import Corpus, Mean, Metric, Ratio, UnitScore
from harness.statistics import resampling
from harness.statistics.paired import compare

GIOU = Metric("giou")
ERROR = Metric("error", better="lower")
CIOU = Metric("ciou", epsilon=1e-6)
HALF = Metric("half", inputs=("giou", "ciou"), derived=lambda g, c: (g + c) / 2)


def unit(name, group, **scores):
    return UnitScore(
        unit=str(name),
        group=str(group),
        samples=(str(name),),
        categories={},
        failed=0,
        scores=scores,
    )


def means(values, *, metric="giou", per_group=1):
    return [
        unit(i, i // per_group, **{metric: Mean(float(value))}) for i, value in enumerate(values)
    ]


def test_identical_runs_differ_by_nothing():
    values = np.random.default_rng(0).random(60)
    got = compare((GIOU,), means(values), means(values), name="giou")
    assert got.difference == 0
    assert got.interval == (0, 0)
    assert got.p_value == 1
    assert got.detectable is None
    assert not got.is_worse
    assert not got.is_better


def test_a_planted_loss_is_found_and_has_the_right_sign():
    generator = np.random.default_rng(1)
    base = generator.random(200)
    after = base - 0.03 + generator.normal(0, 0.05, 200)
    got = compare((GIOU,), means(base), means(after), name="giou")
    assert got.is_worse
    assert got.loss == pytest.approx(0.03, abs=0.012)
    assert got.p_value < 0.001
    reverse = compare((GIOU,), means(after), means(base), name="giou")
    assert reverse.is_better
    assert reverse.difference == -got.difference


def test_for_an_error_more_is_worse():
    base = np.random.default_rng(2).random(100)
    a, b = means(base, metric="error"), means(base + 0.1, metric="error")
    got = compare((ERROR,), a, b, name="error")
    assert got.is_worse
    assert not got.is_better
    assert got.loss == pytest.approx(0.1)


def test_pairing_sees_what_two_separate_intervals_cannot():
    generator = np.random.default_rng(3)
    base = generator.random(100)  # images differ far more than the runs do
    got = compare((GIOU,), means(base), means(base - 0.01), name="giou")
    assert got.is_worse
    low, high = got.interval
    assert -0.02 < low < -0.01 < high < 0


def test_a_difference_that_is_the_same_everywhere_is_not_known_exactly():
    """Six of six lost say p = 2/64, not that every further sample is lost."""
    got = compare((GIOU,), means([1.0] * 6), means([0.0] * 6), name="giou")
    assert got.p_value == 2 / 64 and got.is_worse
    assert got.interval == (-1.0, pytest.approx(-1 / 3))


def test_the_difference_of_a_ratio_and_of_a_derived_metric_is_that_of_the_boards():
    a = [unit(i, i, giou=Mean(0.5), ciou=Ratio(i, 10)) for i in range(8)]
    b = [unit(i, i, giou=Mean(0.7), ciou=Ratio(i, 12)) for i in range(8)]
    metrics = (GIOU, CIOU, HALF)
    ciou = compare(metrics, a, b, name="ciou")
    assert ciou.a == pytest.approx(28 / 80, rel=1e-6)
    assert ciou.difference == pytest.approx(28 / 96 - 28 / 80, rel=1e-5)
    half = compare(metrics, a, b, name="half")
    assert half.difference == pytest.approx((0.2 + ciou.difference) / 2)
    assert half.interval[0] < half.difference < half.interval[1]


def test_a_corpus_metric_gets_interval_and_p_from_the_jackknife():
    cider = Metric("cider", corpus=lambda items: sum(items) / len(items))
    random = np.random.default_rng(3)
    base = random.random(12)
    a = [unit(i, i // 2, cider=Corpus((x,))) for i, x in enumerate(base)]
    b = [unit(i, i // 2, cider=Corpus((x + random.normal(0.3, 0.1),))) for i, x in enumerate(base)]
    got = compare((cider,), a, b, name="cider")
    assert got.method == "jackknife"
    assert got.is_better
    assert got.p_value < 0.01
    assert got.interval[0] < 0.3 < got.interval[1]
    assert compare((cider,), a, a, name="cider").interval == (0, 0)


def test_a_corpus_that_gains_the_same_without_any_group_has_no_p():
    cider = Metric("cider", corpus=max)
    a = [unit(i, i, cider=Corpus((1,))) for i in range(5)]
    b = [unit(i, i, cider=Corpus((2,))) for i in range(5)]
    got = compare((cider,), a, b, name="cider")
    assert got.interval == (1, 1)
    assert got.p_value is got.detectable is None


def test_a_corpus_in_one_group_gets_a_difference_but_no_interval():
    cider = Metric("cider", corpus=sum)
    a = [unit(i, 0, cider=Corpus((i,))) for i in range(5)]
    b = [unit(i, 0, cider=Corpus((i + 1,))) for i in range(5)]
    got = compare((cider,), a, b, name="cider")
    assert got.difference == 5
    assert got.interval is got.p_value is got.detectable is None
    assert not got.is_worse


def test_one_group_gets_no_interval():
    a, b = means([0.1, 0.2], per_group=2), means([0.3, 0.4], per_group=2)
    got = compare((GIOU,), a, b, name="giou")
    assert got.n_groups == 1
    assert got.n_units == 2
    assert got.interval is None


def test_the_exact_p_value_is_that_of_all_sign_flips():
    generator = np.random.default_rng(4)
    base, after = generator.random((2, 6))
    got = compare((GIOU,), means(base), means(after), name="giou")
    change = after - base
    flips = [abs(np.dot(signs, change)) for signs in product((-1, 1), repeat=6)]
    expected = np.mean([flip >= abs(change.sum()) - 1e-12 for flip in flips])
    assert got.p_value == expected


def test_drawn_swaps_agree_with_all_of_them():
    generator = np.random.default_rng(5)
    base = generator.random(12)
    after = base + generator.normal(0.05, 0.1, 12)
    exact = compare((GIOU,), means(base), means(after), name="giou", resamples=4096)
    drawn = compare((GIOU,), means(base), means(after), name="giou", resamples=4095)
    error = np.sqrt(exact.p_value * (1 - exact.p_value) / 4095)
    assert drawn.p_value == pytest.approx(exact.p_value, abs=4 * error)
    assert exact.p_value * 4096 == round(exact.p_value * 4096)


def test_a_drawn_p_value_is_never_zero():
    base = np.linspace(0, 1, 40)
    got = compare((GIOU,), means(base), means(base + 0.5), name="giou", resamples=99)
    assert got.p_value == 1 / 100


def test_groups_that_do_not_differ_still_weigh_in_a_ratio():
    # Without the last two groups p would be 1.
    parts = [(4, 24, 5, 26), (5, 22, 8, 23), (8, 20, 2, 9), (30, 40, 30, 40), (2, 50, 2, 50)]
    a = [unit(i, i, ciou=Ratio(n, d)) for i, (n, d, _, _) in enumerate(parts)]
    b = [unit(i, i, ciou=Ratio(n, d)) for i, (_, _, n, d) in enumerate(parts)]

    def difference(swaps):
        sums = np.zeros(4)
        for (n, d, m, e), swap in zip(parts, swaps, strict=True):
            sums += (m, e, n, d) if swap else (n, d, m, e)
        return abs(sums[2] / sums[3] - sums[0] / sums[1])

    seen = difference([0] * 5)
    expected = np.mean([difference(s) >= seen - 1e-12 for s in product((0, 1), repeat=5)])
    assert compare((Metric("ciou"),), a, b, name="ciou").p_value == expected


def test_p_values_are_uniform_when_nothing_differs():
    generator = np.random.default_rng(6)
    p_values = []
    for trial in range(300):
        a, b = generator.random((2, 24))
        got = compare(
            (GIOU,),
            means(a, per_group=2),
            means(b, per_group=2),
            name="giou",
            resamples=200,
            seed=trial,
        )
        p_values.append(got.p_value)
    shares = [np.mean(np.array(p_values) <= level) for level in (0.05, 0.25, 0.5, 0.75)]
    assert shares == pytest.approx([0.05, 0.25, 0.5, 0.75], abs=0.09)


def test_the_detectable_loss_is_found_in_about_four_of_five_cases():
    generator = np.random.default_rng(7)
    base = generator.random(80)
    noise = generator.normal(0, 0.1, 80)
    size = compare((GIOU,), means(base), means(base + noise), name="giou").detectable
    assert size == pytest.approx(2.8 * 0.1 / np.sqrt(80), rel=0.25)
    found = 0
    for trial in range(100):
        after = base - size + generator.normal(0, 0.1, 80)
        found += compare(
            (GIOU,), means(base), means(after), name="giou", resamples=200, seed=trial
        ).is_worse
    assert 0.65 <= found / 100 <= 0.95


def test_runs_on_other_samples_are_refused_with_what_is_missing():
    a = means([0.1, 0.2, 0.3])
    with pytest.raises(DataError, match=r"1 .*second \(2\)"):
        compare((GIOU,), a, a[:2], name="giou")
    with pytest.raises(DataError, match=r"1 .*first \(0\)"):
        compare((GIOU,), a[1:], a, name="giou")
    with pytest.raises(DataError, match=r"second .*4 lines.*3 units"):
        compare((GIOU,), a, [*a, a[0]], name="giou")
    moved = [unit("0", "elsewhere", giou=Mean(0.1)), *a[1:]]
    with pytest.raises(DataError, match=r"1 units .*\(0\)"):
        compare((GIOU,), a, moved, name="giou")


def test_an_unknown_metric_is_refused():
    with pytest.raises(UsageError, match="giuo"):
        compare((GIOU,), [], [], name="giuo")


@pytest.mark.parametrize("cells", [1, 400])
def test_swaps_in_blocks_are_those_in_one(monkeypatch, cells):
    generator = np.random.default_rng(8)
    base = generator.random(40)
    a, b = means(base), means(base + generator.normal(0.02, 0.1, 40))
    whole = compare((GIOU,), a, b, name="giou", resamples=300)
    monkeypatch.setattr(resampling, "BLOCK_CELLS", cells)
    assert compare((GIOU,), a, b, name="giou", resamples=300) == whole


two_runs = st.lists(
    st.tuples(st.integers(0, 4), st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12
)


@settings(max_examples=40, deadline=None)
@given(two_runs, st.randoms(use_true_random=False))
def test_the_order_of_units_does_not_matter(rows, random):
    a = [unit(i, group, giou=Mean(x)) for i, (group, x, _) in enumerate(rows)]
    b = [unit(i, group, giou=Mean(y)) for i, (group, _, y) in enumerate(rows)]
    first = compare((GIOU,), a, b, name="giou", resamples=40)
    random.shuffle(a)
    random.shuffle(b)
    assert compare((GIOU,), a, b, name="giou", resamples=40) == first


@settings(max_examples=40, deadline=None)
@given(two_runs)
def test_exchanging_the_runs_changes_signs_only(rows):
    a = [unit(i, group, giou=Mean(x)) for i, (group, x, _) in enumerate(rows)]
    b = [unit(i, group, giou=Mean(y)) for i, (group, _, y) in enumerate(rows)]
    there = compare((GIOU,), a, b, name="giou", resamples=40)
    back = compare((GIOU,), b, a, name="giou", resamples=40)
    assert back.difference == -there.difference
    assert back.p_value == pytest.approx(there.p_value)
    assert (back.is_worse, back.is_better) == (there.is_better, there.is_worse)
    if there.interval is not None:
        low, high = there.interval
        assert back.interval == pytest.approx((-high, -low), abs=1e-9)


def test_losses_in_few_groups_of_many_are_no_shown_difference():
    got = compare((GIOU,), means([0.9] * 24), means([0.0] * 4 + [0.9] * 20), name="giou")
    assert got.p_value == 2 / 2**4
    assert not got.is_worse and got.interval[1] >= 0


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_the_interval_of_a_shares_difference_stays_within_what_shares_can_differ_by(better):
    """Of an error that happens to be 0 or 1 nothing is known beyond them."""
    metric = Metric("giou", better=better)
    got = compare((metric,), means([1.0] * 9 + [0.0]), means([0.0] * 9 + [0.0]), name="giou")
    assert got.difference == -0.9 and got.is_worse == (better == "higher")
    assert (got.interval[0] == -1.0) == (better == "higher")
    assert got.interval[0] <= -1.0 < got.interval[1] < 0


@pytest.mark.parametrize(
    ("derived", "is_bounded"),
    [(lambda j, f: (j + f) / 2, True), (lambda j, f: j * f, True), (lambda j, f: j + f, False)],
)
def test_the_interval_of_a_derived_difference_ends_at_1_if_its_range_does(derived, is_bounded):
    metrics = (Metric("j"), Metric("f"), Metric("jf", inputs=("j", "f"), derived=derived))
    low, high = (
        [unit(i, i, j=Mean(x), f=Mean(x)) for i, x in enumerate(values)]
        for values in ([0.0] * 8 + [0.9], [0.99] * 8 + [0.9])
    )
    got = compare(metrics, low, high, name="jf")
    assert got.is_better and (got.interval[1] == 1.0) == is_bounded
    assert compare(metrics, high, low, name="jf").interval[0] == -got.interval[1]


@pytest.mark.parametrize("scale", [1, 2])
def test_the_interval_of_scores_from_0_to_1_ends_at_1(scale):
    a, b = means([0.02] * 8 + [0.9]), means([scale * 0.98] * 8 + [0.9])
    got = compare((GIOU,), a, b, name="giou")
    assert (got.interval[1] == 1.0) == (scale == 1) and got.interval[1] >= 1.0

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataError
from harness.scores import Mean, Metric, UnitScore
from harness.statistics.analytic import clustered_mean, estimates
from harness.statistics.bootstrap import intervals, resample_metrics
from harness.statistics.clusters import group_sums
from harness.statistics.jackknife import replicates

GIOU = Metric("giou")


def units(rows):
    return [
        UnitScore(
            unit=str(i),
            group=str(group),
            samples=(),
            categories={},
            failed=0,
            scores={"giou": Mean(value)},
        )
        for i, (group, value) in enumerate(rows)
    ]


rows = st.lists(
    st.tuples(st.integers(0, 6), st.floats(0, 1, allow_subnormal=False)), min_size=2, max_size=20
).filter(lambda found: len({group for group, _ in found}) > 1)


@settings(max_examples=50, deadline=None)
@given(rows, st.randoms(use_true_random=False), st.floats(-3, 3), st.floats(0.1, 9))
def test_order_shift_and_scale_change_an_estimate_as_they_should(found, random, shift, scale):
    groups, values = zip(*found, strict=True)
    plain = clustered_mean(values, groups)
    mixed = list(found)
    random.shuffle(mixed)
    again = clustered_mean([shift + scale * v for _, v in mixed], [g for g, _ in mixed])
    assert again.value == pytest.approx(shift + scale * plain.value, abs=1e-9)
    assert again.error == pytest.approx(scale * plain.error, abs=1e-9)
    assert again.n_groups == plain.n_groups == len({*groups})


@settings(max_examples=50, deadline=None)
@given(rows)
def test_names_of_groups_do_not_matter_and_units_agree_with_arrays(found):
    groups, values = zip(*found, strict=True)
    plain = clustered_mean(values, groups)
    renamed = clustered_mean(values, [("image", -group) for group in groups])
    run = estimates((GIOU,), units(found))["giou"]
    assert renamed.error == pytest.approx(plain.error, rel=1e-9)
    assert (run.value, run.error) == pytest.approx((plain.value, plain.error), rel=1e-9, abs=1e-12)


def test_the_three_standard_errors_agree_where_there_are_many_groups():
    random = np.random.default_rng(0)
    found = [(group, float(random.random())) for group in range(400) for _ in range(1 + group % 3)]
    run = units(found)
    formula = estimates((GIOU,), run)["giou"].error
    assert np.std(resample_metrics((GIOU,), group_sums((GIOU,), run))["giou"]) == pytest.approx(
        formula, rel=0.06
    )
    assert replicates((GIOU,), run, blocks=400).error("giou") == pytest.approx(formula, rel=0.01)
    assert replicates((GIOU,), run, blocks=50).error("giou") == pytest.approx(formula, rel=0.35)
    low, high = intervals((GIOU,), run)["giou"]
    assert (high - low) / 2 == pytest.approx(1.966 * formula, rel=0.06)


def test_ignoring_the_groups_would_be_too_narrow():
    random = np.random.default_rng(1)
    effects = random.normal(0.5, 0.15, 30)
    found = [(g, float(effects[g] + random.normal(0, 0.05))) for g in range(30) for _ in range(20)]
    groups, values = zip(*found, strict=True)
    alone = clustered_mean(values, range(len(values)))
    assert clustered_mean(values, groups).error > 3 * alone.error


def test_a_mean_weighs_its_samples():
    mean = clustered_mean([0.5, 0.9], "ab", weights=[2, 100])
    assert mean.value == pytest.approx(91 / 102)


@pytest.mark.parametrize(
    ("values", "groups", "words"),
    [
        ([1.0, 2.0], "aa", "interval: .*found 1"),
        ([], "", "interval: .*found 0"),
        ([1.0, float("nan")], "ab", "samples: .*NaN"),
        ([1.0, 2.0, 3.0], "ab", r"shapes \(3,\)"),
    ],
)
def test_what_cannot_be_estimated_is_refused(values, groups, words):
    with pytest.raises(DataError, match=words):
        clustered_mean(values, groups)

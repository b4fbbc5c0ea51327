import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataError
from harness.statistics.analytic import clustered_mean
from harness.statistics.variance import components, seeded_score

GROUND_TRUTH = {
    "sample": 0.15,
    "training": 0.03,
    "decoding": 0.02,
    "sample_training": 0.05,
    "sample_decoding": 0.1,
}


def simulated(random, groups, trainings, decodings, **deviations):
    size = {
        "sample": (groups, 1, 1),
        "training": (trainings, 1),
        "decoding": (trainings, decodings),
        "sample_training": (groups, trainings, 1),
        "sample_decoding": (groups, trainings, decodings),
    }
    return 0.5 + sum(random.normal(0, deviations[name], size[name]) for name in size)


def test_the_components_of_simulated_runs_are_found():
    random = np.random.default_rng(0)
    found = [components(simulated(random, 150, 8, 4, **GROUND_TRUTH)) for _ in range(60)]
    for name, deviation in GROUND_TRUTH.items():
        average = np.mean([getattr(one, name) for one in found])
        assert average == pytest.approx(deviation**2, rel=0.15), name


def test_what_the_seeds_cannot_tell_apart_is_none_and_part_of_the_other():
    random = np.random.default_rng(1)
    once = [components(simulated(random, 150, 8, 1, **GROUND_TRUTH)) for _ in range(60)]
    assert {(one.decoding, one.sample_decoding) for one in once} == {(None, None)}
    training = np.mean([one.training for one in once])
    crossed = np.mean([one.sample_training for one in once])
    assert training == pytest.approx(0.03**2 + 0.02**2, rel=0.15)
    assert crossed == pytest.approx(0.05**2 + 0.1**2, rel=0.05)
    single = [components(simulated(random, 150, 1, 6, **GROUND_TRUTH)) for _ in range(60)]
    assert {(one.training, one.sample_training) for one in single} == {(None, None)}
    sample = np.mean([one.sample for one in single])
    assert sample == pytest.approx(0.15**2 + 0.05**2, rel=0.05)


def test_components_that_are_not_there_are_given_as_none_below_zero():
    random = np.random.default_rng(2)
    nothing = {**GROUND_TRUTH, "training": 0.0, "decoding": 0.0, "sample_training": 0.0}
    found = [components(simulated(random, 30, 3, 2, **nothing)) for _ in range(100)]
    assert all(one.training >= 0 and one.decoding >= 0 for one in found)
    for name in ("training", "decoding", "sample_training"):
        clipped = [one for one in found if name in one.clipped]
        assert 20 <= len(clipped) <= 90
        assert all(getattr(one, name) == 0 for one in clipped)


def test_decoding_without_noise_has_no_variance():
    y = simulated(np.random.default_rng(3), 20, 3, 1, **GROUND_TRUTH)
    found = components(np.repeat(y, 4, axis=2))
    assert found.decoding == pytest.approx(0, abs=1e-15)
    assert found.sample_decoding == pytest.approx(0, abs=1e-15)
    assert "decoding" not in found.clipped


def test_the_sources_of_a_score_add_up_to_its_variance():
    random = np.random.default_rng(4)
    scores = [simulated(random, 40, 3, 2, **GROUND_TRUTH).mean() for _ in range(3000)]
    found = [components(simulated(random, 40, 3, 2, **GROUND_TRUTH)) for _ in range(200)]
    parts = [sum(one.of_score(trainings=3, decodings=2).values()) for one in found]
    assert np.mean(parts) == pytest.approx(np.var(scores), rel=0.1)
    single = found[0].of_score()
    assert single["training"] > found[0].of_score(trainings=2)["training"]
    assert single["sample"] == found[0].of_score(groups=40)["sample"]


@pytest.mark.parametrize(
    ("trainings", "decodings", "spread", "over"),
    [
        (5, 2, 0.03, ("samples", "trainings", "decodings")),
        (5, 1, 0.0, ("samples", "trainings")),
        (3, 1, 0.1, ("samples", "trainings")),
    ],
)
def test_intervals_over_seeds_hold_the_recipes_mean(trainings, decodings, spread, over):
    random = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        y = simulated(random, 50, trainings, decodings, **{**GROUND_TRUTH, "training": spread})
        score = seeded_score(y)
        held += score.interval[0] <= 0.5 <= score.interval[1]
    assert score.over == over
    assert 0.915 <= held / 400 <= 0.99


def test_an_interval_without_seeds_misses_the_recipe():
    random = np.random.default_rng(6)
    held = 0
    for _ in range(200):
        y = simulated(random, 100, 3, 1, **{**GROUND_TRUTH, "training": 0.05})
        low, high = clustered_mean(y.mean(axis=(1, 2)), range(100)).interval
        held += low <= 0.5 <= high
    assert held / 200 < 0.75


def test_one_run_has_the_clustered_interval():
    y = np.random.default_rng(7).random(30)
    score, plain = seeded_score(y.reshape(30, 1, 1)), clustered_mean(y, range(30))
    assert (*score.interval, score.error) == pytest.approx((*plain.interval, plain.error))
    assert score.over == ("samples",)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(-2, 2), st.floats(0.1, 5))
def test_order_shift_and_scale(seed, shift, scale):
    random = np.random.default_rng(seed)
    y = simulated(random, 6, 3, 2, **GROUND_TRUTH)
    mixed = y[random.permutation(6)][:, random.permutation(3)][:, :, random.permutation(2)]
    plain, other = components(y), components(shift + scale * mixed)
    for name in GROUND_TRUTH:
        one, two = getattr(plain, name), getattr(other, name)
        assert two == pytest.approx(scale**2 * one, rel=1e-6, abs=1e-9)
    assert seeded_score(shift + scale * mixed).error == pytest.approx(
        scale * seeded_score(y).error, rel=1e-6
    )


@pytest.mark.parametrize(
    "values",
    [np.zeros((3, 2)), np.zeros((1, 2, 2)), np.zeros((3, 0, 2)), np.full((3, 1, 1), np.nan)],
)
def test_what_is_no_balanced_table_is_refused(values):
    with pytest.raises(DataError, match="groups × trainings × decodings"):
        components(values)

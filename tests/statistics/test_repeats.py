from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataError, UsageError
from harness.statistics.repeats import best_of_k

tables = st.integers(1, 6).flatmap(
    lambda n: st.lists(
        st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=n, max_size=n),
        min_size=1,
        max_size=5,
    )
)


@settings(max_examples=60, deadline=None)
@given(tables, st.randoms(use_true_random=False))
def test_the_best_of_more_is_no_worse_and_order_does_not_matter(scores, random):
    n = len(scores[0])
    higher = [best_of_k(scores, k=k) for k in range(1, n + 1)]
    lower = [best_of_k(scores, k=k, better="lower") for k in range(1, n + 1)]
    for fewer, more in pairwise(higher):
        assert (more >= fewer - 1e-9).all()
    for fewer, more in pairwise(lower):
        assert (more <= fewer + 1e-9).all()
    np.testing.assert_allclose(higher[0], np.mean(scores, axis=1), atol=1e-9)
    np.testing.assert_allclose(higher[-1], np.max(scores, axis=1), atol=1e-9)
    np.testing.assert_allclose(lower[-1], np.min(scores, axis=1), atol=1e-9)
    mixed = [random.sample(row, n) for row in scores]
    np.testing.assert_array_equal(best_of_k(mixed, k=n), higher[-1])


def test_pass_at_k_is_unbiased_where_the_plain_power_is_not():
    random = np.random.default_rng(0)
    chance = random.beta(0.5, 2, 4000)
    ground_truth = np.mean(1 - (1 - chance) ** 4)
    right = random.random((4000, 5)) < chance[:, None]
    ours = best_of_k(right, k=4).mean()
    plain = np.mean(1 - (1 - right.mean(axis=1)) ** 4)
    assert ours == pytest.approx(ground_truth, abs=0.02)
    assert plain < ground_truth - 0.02


def test_many_repeats_neither_overflow_nor_lose_digits():
    right = np.zeros((1, 2000))
    right[0, 0] = 1
    assert best_of_k(right, k=1000) == pytest.approx([0.5])


@pytest.mark.parametrize("k", [0, 4, -1])
def test_k_beyond_the_repeats_is_refused(k):
    with pytest.raises(UsageError, match="1 to 3"):
        best_of_k([[0, 1, 1]], k=k)


@pytest.mark.parametrize("scores", [[1, 0], [[]], [[1, float("nan")]], 3])
def test_what_is_no_table_of_repeats_is_refused(scores):
    with pytest.raises(DataError, match="samples × repeats"):
        best_of_k(scores, k=1)

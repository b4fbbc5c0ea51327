import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.statistics.clusters import Summands

numbers = st.floats(-1e9, 1e9, allow_nan=False)
columns = st.lists(st.tuples(numbers, st.integers(0, 5)), min_size=1, max_size=40)


@settings(max_examples=100, deadline=None)
@given(columns, st.randoms(use_true_random=False))
def test_sums_are_exact_but_for_one_rounding_and_have_the_same_bits_in_any_order(rows, random):
    table = np.array([[value] for value, _ in rows])
    weights = np.array([[float(weight) for _, weight in rows]])
    found = Summands.of_table(table, limit=200).weighted_sums(weights)
    expected = float(sum(weight * Fraction(value) for value, weight in rows))
    largest = max(abs(value) for value, _ in rows)
    assert abs(found[0, 0] - expected) <= math.ulp(expected) + 2**-75 * largest
    order = list(range(len(rows)))
    random.shuffle(order)
    again = Summands.of_table(table[order], limit=200).weighted_sums(weights[:, order])
    assert np.array_equal(again, found)


def test_a_product_in_single_rows_has_the_bits_of_one_in_a_block():
    random = np.random.default_rng(0)
    table, weights = random.random((3000, 3)), random.integers(0, 5, (50, 3000)).astype(float)
    summands = Summands.of_table(table, limit=3000 * 4)
    block = summands.weighted_sums(weights)
    rows = np.concatenate([summands.weighted_sums(row[None]) for row in weights])
    assert np.array_equal(block, rows)
    # What they are for: the plain product depends on how it is cut.
    assert np.allclose(block, weights @ table, rtol=1e-12)

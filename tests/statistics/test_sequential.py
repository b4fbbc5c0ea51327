"""The comparison that may be stopped at any group: its errors, bounds and a case by hand."""

import numpy as np
import pytest

from harness.statistics.sequential import BETS, SequentialComparison, Wealth


def test_wealth_by_hand():
    wealth = Wealth()
    for x in (0.5, -1.0):
        wealth.add(x)
    by_hand = np.mean([(1 + bet * 0.5) * (1 - bet) for bet in BETS])
    assert wealth.value == pytest.approx(by_hand)


def test_no_number_within_the_bounds_makes_wealth_negative_or_endless():
    for x in (-1.0, 1.0):
        wealth = Wealth()
        for _ in range(3000):
            wealth.add(x)
        assert wealth.value >= 0 and not np.isnan(wealth.value)


def decisions(drop, *, groups=300, trials=400, margin=0.1):
    found = []
    for trial in range(trials):
        random = np.random.default_rng(trial)
        test = SequentialComparison(largest=3, margin=margin)
        for shared in random.normal(-drop, 0.2, groups):
            size = random.integers(1, 4)
            test.add(np.clip(shared + random.normal(0, 0.1, size), -1, 1))
            if test.decision:
                break
        found.append((test.decision, test.groups))
    return found


def rate(found, decision):
    return np.mean([one == decision for one, _ in found])


def test_looking_after_every_group_keeps_the_error_rates():
    assert rate(decisions(0.0), "worse") <= 0.05
    assert rate(decisions(0.1), "not worse") <= 0.05


def test_large_drops_and_equal_models_are_decided_early():
    large = decisions(0.3, trials=50)
    assert rate(large, "worse") == 1 and np.mean([groups for _, groups in large]) < 60
    equal = decisions(0.0, groups=2000, trials=50)
    assert rate(equal, "not worse") >= 0.95


def test_a_group_of_several_units_weighs_as_much_as_its_units():
    one, several = (SequentialComparison(largest=4, margin=0.1) for _ in range(2))
    for _ in range(60):
        one.add([-0.2])
        several.add([-0.2] * 4)
    assert several.decision == "worse" and one.decision is None

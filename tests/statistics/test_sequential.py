"""The comparison that may be stopped at any group: its errors, bounds and a case by hand."""

import numpy as np
import pytest

from harness.statistics.sequential import BET_SHARES, decide, wealth


def test_wealth_by_hand():
    after = [np.mean(1 + BET_SHARES * 0.5), np.mean((1 + BET_SHARES * 0.5) * (1 - BET_SHARES))]
    assert wealth([0.5, -1.0]) == pytest.approx(after)


def test_no_number_within_the_bounds_makes_wealth_negative_or_endless():
    for x in (-1.0, 1.0):
        found = wealth(np.full(3000, x))
        assert np.all(found >= 0) and np.all(np.isfinite(found))


def decisions(drop, *, groups=300, trials=2000, margin=0.1):
    found = []
    for trial in range(trials):
        random = np.random.default_rng(trial)
        sizes = random.integers(1, 4, groups)
        means = random.normal(-drop, 0.2, groups) + random.normal(0, 0.1, groups) / np.sqrt(sizes)
        totals = sizes * np.clip(means, -1, 1)
        found.append(decide(totals, sizes, largest=3, margin=margin, level=0.95))
    return found


def rate(found, decision):
    return np.mean([one == decision for one, _ in found])


def test_looking_after_every_group_keeps_the_error_rates():
    assert rate(decisions(0.0), "worse") <= 0.05
    assert rate(decisions(0.1), "not worse") <= 0.05


def test_large_drops_and_equal_models_are_decided_early():
    large = decisions(0.3, trials=100)
    assert rate(large, "worse") == 1 and np.mean([groups for _, groups in large]) < 60
    equal = decisions(0.0, groups=2000, trials=100)
    assert rate(equal, "not worse") >= 0.95


def test_the_first_decision_stands_whatever_comes_after():
    given = {"largest": 1, "margin": 0.5, "level": 0.95}
    worse, seen = decide([-1.0] * 20, [1] * 20, **given)
    assert worse == "worse" and seen < 20
    assert decide([-1.0] * 20 + [1.0] * 500, [1] * 520, **given) == ("worse", seen)
    assert decide([-1.0] * (seen - 1), [1] * (seen - 1), **given) == (None, seen - 1)


def test_a_group_of_several_units_weighs_as_much_as_its_units():
    given = {"largest": 4, "margin": 0.1, "level": 0.95}
    assert decide([-0.8] * 60, [4] * 60, **given)[0] == "worse"
    assert decide([-0.2] * 60, [1] * 60, **given)[0] is None

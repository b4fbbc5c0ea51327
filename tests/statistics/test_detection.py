"""Losses of right answers that are shown with 80 % power: against exact tests and simulations."""

from itertools import product
from math import comb

import numpy as np
import pytest

from harness.scores import Mean, Metric, UnitScore
from harness.statistics.detection import RightAnswers, shown, shown_exactly
from harness.statistics.paired import compare

ACCURACY = (Metric("accuracy"),)


def answers(right, per_group=1):
    """One unit an answer."""
    return [
        UnitScore(
            unit=str(place),
            group=str(place // per_group),
            samples=(str(place),),
            categories={},
            failed=0,
            scores={"accuracy": Mean(float(one))},
        )
        for place, one in enumerate(right)
    ]


def exact_power(count, both, first, second, lost):
    """The sign test of single answers: every number of discordant ones, and of those lost.

    Args:
        count: Number of answers.
        both, first, second: Shares that both runs, or one of them alone, have right.
        lost: Share of the second run's right answers that are lost.
    """
    losses, gains = first + both * lost, second * (1 - lost)
    found = 0.0
    for discordant in range(count + 1):
        chance = comb(count, discordant) * (losses + gains) ** discordant
        chance *= (1 - losses - gains) ** (count - discordant)
        tails = [
            sum(comb(discordant, k) for k in range(n, discordant + 1))
            for n in range(discordant + 1)
        ]
        for n in range(discordant // 2 + 1, discordant + 1):
            if 2 * tails[n] / 2**discordant <= 0.05:
                share = losses / (losses + gains)
                found += chance * comb(discordant, n) * share**n * (1 - share) ** (discordant - n)
    return found


@pytest.mark.parametrize("count", [24, 60, 150])
@pytest.mark.parametrize("lost", [0.3, 0.6, 0.9])
def test_single_answers_are_shown_as_often_as_by_the_exact_sign_test(count, lost):
    pairs = {(1, 1): 0.3, (1, 0): 0.2, (0, 1): 0.2, (0, 0): 0.3}
    expected = exact_power(count, 0.3, 0.2, 0.2, lost)
    found = shown(pairs, groups=count, lost=lost, level=0.95)
    assert found == pytest.approx(expected, abs=0.05)
    found = shown_exactly(pairs, groups=count, lost=lost, level=0.95)
    assert found == pytest.approx(expected, abs=0.02)  # of 300 numbers of differing answers


def test_several_answers_a_group_are_shown_as_often_as_all_swaps_of_drawn_groups_say():
    pairs = {(3, 2): 0.3, (2, 3): 0.3, (1, 1): 0.2, (3, 0): 0.1, (0, 3): 0.1}
    groups, lost, random, hits = 9, 0.6, np.random.default_rng(2), 0
    signs = np.array(list(product((-1, 1), repeat=groups)))
    chosen = random.choice(len(pairs), size=(2000, groups), p=list(pairs.values()))
    for right, other in np.array(list(pairs))[chosen].transpose(0, 2, 1):
        differences = right - random.binomial(other, 1 - lost)
        total = differences.sum()
        hits += total > 0 and np.mean(np.abs(signs @ differences) >= total) <= 0.05
    found = shown_exactly(pairs, groups=groups, lost=lost, level=0.95)
    assert found == pytest.approx(hits / 2000, abs=0.04)  # two standard errors of both


@pytest.mark.parametrize(("groups", "per_group"), [(24, 1), (15, 5), (60, 2)])
def test_the_detectable_loss_is_shown_with_80_percent_by_the_exact_test(groups, per_group):
    random = np.random.default_rng(groups)
    rates = random.beta(2, 2, groups).repeat(per_group)
    a, b = (answers(random.random(len(rates)) < rates, per_group) for _ in range(2))
    found = RightAnswers.of(a, b, "accuracy")
    size = found.detectable(level=0.95, power=0.8)
    right = sum(weight * other for (_, other), weight in found.pairs.items()) / per_group
    power = shown_exactly(found.pairs, groups=groups, lost=size / right, level=0.95)
    assert power == pytest.approx(0.8 + 0.45 / groups, abs=0.01)


def test_the_detectable_loss_is_shown_with_just_that_power_and_is_larger_for_more():
    random = np.random.default_rng(1)
    rates = random.beta(2, 2, 90)
    a, b = (answers(random.random(90) < rates, 3) for _ in range(2))
    found = RightAnswers.of(a, b, "accuracy")
    sizes = [found.detectable(level=0.95, power=power) for power in (0.5, 0.8, 0.95)]
    assert sizes == sorted(sizes) and 0 < sizes[0] < sizes[-1] < 1
    assert found.detectable(level=0.99, power=0.8) > sizes[1]
    got = compare(ACCURACY, a, b, name="accuracy", resamples=200)
    assert got.detectable == sizes[1] and got.by_formula < sizes[1]
    assert "answers" not in got.to_json() and got.to_json()["detectable"] == sizes[1]


def test_no_loss_is_promised_where_none_can_be_shown():
    few = RightAnswers.of(answers([1, 0, 1, 0]), answers([0, 1, 1, 0]), "accuracy")
    assert few.detectable(level=0.95, power=0.8) is None
    got = compare(ACCURACY, answers([1, 0, 1, 0]), answers([0, 1, 1, 0]), name="accuracy")
    assert got.detectable is None and got.by_formula > 0


def test_what_is_no_share_of_answers_has_the_formula():
    units = answers([0.5, 1.0, 0.0, 1.0])
    assert RightAnswers.of(units, units, "accuracy") is None
    assert RightAnswers.of(answers([1, 0]), answers([1, 0]), "other") is None


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "per_group"), [(24, 1), (100, 1), (15, 5), (30, 3), (50, 4)])
def test_four_of_five_detectable_losses_are_shown(groups, per_group):
    """Models of equal rates; then one loses just that much, in proportion to its rates."""
    random, count, hits = np.random.default_rng(3), groups * per_group, []
    for trial in range(1500):
        rates = random.beta(2, 2, groups).repeat(per_group)
        a, b = (answers(random.random(count) < rates, per_group) for _ in range(2))
        size = RightAnswers.of(a, b, "accuracy").detectable(level=0.95, power=0.8)
        if size is None:
            continue
        kept = rates * max(0.0, 1 - size / rates.mean())
        after = answers(random.random(count) < kept, per_group)
        got = compare(ACCURACY, a, after, name="accuracy", resamples=500, seed=trial)
        hits.append(got.is_worse)
    assert len(hits) > 1400
    assert np.mean(hits) == pytest.approx(0.8, abs=0.04)  # 2 points, and two standard errors

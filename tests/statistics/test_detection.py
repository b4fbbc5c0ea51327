"""Losses of right answers that are shown with 80 % power: against exact tests and simulations."""

from itertools import product
from math import comb

import numpy as np
import pytest

from harness.scores import Mean, Metric, UnitScore
from harness.statistics.detection import RightAnswers, approximate_power, exact_power
from harness.statistics.paired import MIN_GROUPS, compare
from harness.statistics.power import errors_to_show
from harness.statistics.quantiles import half_width

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


def sign_test_power(count, both, first, second, lost):
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
    expected = sign_test_power(count, 0.3, 0.2, 0.2, lost)
    found = approximate_power(pairs, groups=count, lost=lost, level=0.95)
    assert found == pytest.approx(expected, abs=0.05)
    found = exact_power(pairs, groups=count, lost=lost, level=0.95)
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
    found = exact_power(pairs, groups=groups, lost=lost, level=0.95)
    assert found == pytest.approx(hits / 2000, abs=0.04)  # two standard errors of both


@pytest.mark.parametrize(("groups", "per_group"), [(24, 1), (15, 5), (60, 2)])
def test_the_detectable_loss_is_shown_with_80_percent_by_the_exact_test(groups, per_group):
    random = np.random.default_rng(groups)
    rates = random.beta(2, 2, groups).repeat(per_group)
    a, b = (answers(random.random(len(rates)) < rates, per_group) for _ in range(2))
    found = RightAnswers.of(a, b, "accuracy")
    size = found.detectable(level=0.95, power=0.8)
    right = sum(weight * other for (_, other), weight in found.pairs.items()) / per_group
    power = exact_power(found.pairs, groups=groups, lost=size / right, level=0.95)
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


@pytest.mark.parametrize("groups", [8, 12, 24, 48, 96, 500])
@pytest.mark.parametrize("level", [0.95, 0.99])
def test_errors_to_show_are_shown_four_times_of_five_where_both_errors_are_estimates(groups, level):
    random, degrees = np.random.default_rng(groups), groups - 1
    size = errors_to_show(level=level, degrees=degrees)
    noise = random.normal(size=200_000)
    named, tested = np.sqrt(random.chisquare(degrees, (2, noise.size)) / degrees)
    approximate_power = noise + size * named > half_width(level, degrees=degrees) * tested
    assert approximate_power.mean() == pytest.approx(0.8, abs=0.015)


def test_of_few_answers_and_groups_no_loss_is_named():
    random = np.random.default_rng(4)
    for values, words in (
        (random.random((2, 23)) > 0.4, "23 samples are too few to estimate"),
        (random.random((2, 7)), "7 samples are too few to estimate"),
    ):
        a, b = map(answers, values)
        got = compare(ACCURACY, a, b, name="accuracy", resamples=200)
        assert got.detectable is None and got.by_formula > 0
        assert words in got.verdict()


@pytest.mark.parametrize("changed", [1, 7, 8])
def test_a_size_is_stated_from_eight_changed_groups_on(changed):
    random = np.random.default_rng(changed)
    a = random.random(36)
    b = a + random.normal(0, 0.2, 36) * (np.arange(36) < changed)
    got = compare(ACCURACY, answers(a), answers(b), name="accuracy", resamples=200)
    assert got.n_differing == changed and got.p_value > 0.05
    assert ("would show a difference of" in got.verdict()) == (changed == 8)
    assert (f"changed on {changed} of 36" in got.verdict()) == (changed < 8)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [12, 24, 48])
def test_the_stated_size_is_shown_about_four_times_of_five_after_eight_changed_groups(groups):
    """Runs in which few groups change, most by little and some by a whole object."""
    random, hits, draws = np.random.default_rng(groups), [], {"resamples": 500}

    def change():
        large = random.choice([-1, 1], groups) * random.uniform(0.5, 0.9, groups)
        sizes = np.where(random.random(groups) < 0.3, large, random.normal(0, 0.03, groups))
        return sizes * (random.random(groups) < random.choice([8, 10, 12]) / groups)

    for trial in range(1500):
        base = random.random(groups)
        first = compare(
            ACCURACY, answers(base), answers(base + change()), name="accuracy", **draws, seed=trial
        )
        if first.n_differing < MIN_GROUPS:
            continue
        after = answers(base + change() - first.detectable)
        got = compare(ACCURACY, answers(base), after, name="accuracy", **draws, seed=trial)
        hits.append(got.is_worse)
    assert len(hits) > 600
    assert np.mean(hits) == pytest.approx(0.8, abs=0.06)  # 4 points, and two standard errors


def ious(random, base):
    """IoUs of objects that are as difficult as `base` says."""
    return random.beta(3 * base + 0.05, 3 * (1 - base) + 0.05)


def noisy(random, base):
    return base + random.normal(0, 0.2, base.size)


def skew(random, base):
    return base - random.exponential(0.2, base.size)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [12, 24, 48, 96])
@pytest.mark.parametrize("scores", [ious, noisy, skew])
def test_four_of_five_detectable_losses_of_other_scores_are_shown(groups, scores):
    """Models of equal scores; then one loses just that much in every group."""
    random, hits = np.random.default_rng(groups), []
    for trial in range(1500):
        base = random.beta(2, 2, groups)
        a, b, again = (scores(random, base) for _ in range(3))
        size = compare(ACCURACY, answers(a), answers(b), name="accuracy", seed=trial).detectable
        after = answers(again - size)
        hits.append(compare(ACCURACY, answers(a), after, name="accuracy", seed=trial).is_worse)
    # 4 points with few groups, else 2, and two standard errors
    assert np.mean(hits) == pytest.approx(0.8, abs=0.06 if groups < 60 else 0.04)


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

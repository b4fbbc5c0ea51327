"""Models that did not change, simulated: how often a gate of the default rule fails them."""

from dataclasses import replace

import numpy as np
import pytest

from harness.leaderboards.losses import (
    SLACK,
    compare_answers,
    false_alarms,
    is_significant,
    limit,
)
from harness.scores import Mean, Metric, Ratio, UnitScore
from harness.statistics.holm import holm
from harness.statistics.paired import compare

M = Metric("m")


def unit(group, number, score, failed=0):
    name = f"{group}/{number}"
    return UnitScore(
        unit=name,
        group=str(group),
        samples=(name,),
        categories={},
        failed=failed,
        scores={"m": score},
    )


def answers(random, groups):
    chances = random.beta(2, 2, groups)
    return [
        [unit(g, 0, Mean(float(random.random() < chances[g]))) for g in range(groups)]
        for _ in range(2)
    ]


def clustered(random, groups):
    effects = random.normal(0.5, 0.15, groups)
    return [
        [
            unit(g, i, Mean(effects[g] + random.normal(0, 0.1)))
            for g in range(groups)
            for i in range(2)
        ]
        for _ in range(2)
    ]


def areas(random, groups):
    size, right = random.lognormal(8, 1.2, groups), random.beta(3, 2, groups)
    return [
        [
            unit(g, 0, Ratio(size[g] * right[g] * random.uniform(0.8, 1), size[g]))
            for g in range(groups)
        ]
        for _ in range(2)
    ]


@pytest.mark.parametrize("groups", [5, 10, 30])
@pytest.mark.parametrize("draw", [answers, clustered, areas])
def test_equal_models_rarely_differ_or_fail_and_p_never_contradicts_the_interval(draw, groups):
    shown = failed = 0
    rates = []
    for trial in range(120):
        a, b = draw(np.random.default_rng([trial, groups]), groups)
        got = compare((M,), a, b, name="m", resamples=299, seed=trial)
        decided = got.is_worse or got.is_better
        assert decided == (got.p_value <= 0.05)
        shown += decided
        failed += is_significant(got, got.p_value) or got.loss > limit(got, 0.02) + SLACK
        rates.append(false_alarms([(got, 0.02)]))
    # 5 % and 2.5 % or less are expected; more than this is seen once in 1,000.
    assert shown <= 15 and failed <= 10
    assert np.mean(rates) <= 0.05 and abs(np.mean(rates) - failed / 120) < 0.05


def unreadable(random, groups):
    """Two decodings of one model; one response in ten cannot be read."""
    return [
        [unit(one.group, 0, Mean(0.0), 1) if random.random() < 0.1 else one for one in run]
        for run in answers(random, groups)
    ]


@pytest.mark.parametrize("groups", [24, 80])
def test_unreadable_responses_of_equal_models_rarely_fail(groups):
    failed = 0
    rates = []
    for trial in range(120):
        a, b = unreadable(np.random.default_rng([trial, groups]), groups)
        made = [
            compare((M,), a, b, name="m", resamples=299, seed=trial),
            compare_answers(a, b, resamples=299, level=0.95, seed=trial),
        ]
        failed += any(
            is_significant(one, one.p_value) or one.loss > limit(one, 0.02) + SLACK
            for one in made
            if one is not None
        )
        rates.append(1 - np.prod([1 - false_alarms([(one, 0.02)]) for one in made if one]))
    assert failed <= 14  # 5 % or less are expected; more than this is seen once in 1,000
    assert np.mean(rates) <= 0.05 and abs(np.mean(rates) - failed / 120) < 0.05


def test_answers_are_compared_by_sample_and_only_where_some_differ():
    a = [unit(g, 0, Mean(0.5)) for g in range(4)]
    assert compare_answers(a, a[::-1], resamples=99, level=0.95, seed=0) is None
    several = replace(a[0], samples=tuple("abcdef"), failed=3)
    got = compare_answers(
        [several, *a[1:]], [replace(several, failed=5), *a[1:]], resamples=99, level=0.95, seed=0
    )
    assert (got.a, got.b) == pytest.approx((6 / 9, 4 / 9))


def test_many_tasks_do_not_make_losses_that_are_not_significant_fail():
    a, b = clustered(np.random.default_rng(0), 12)
    got = compare((M,), a, b, name="m", resamples=1999)
    assert limit(got, 0.0, tasks=20) > limit(got, 0.0) == pytest.approx(got.by_formula)
    assert false_alarms([(got, 0.0)] * 20) <= 0.05


def test_more_tasks_do_not_make_more_false_alarms():
    failed = 0
    for trial in range(60):
        random = np.random.default_rng(trial)
        made = [compare((M,), *clustered(random, 12), name="m", resamples=199) for _ in range(6)]
        adjusted = holm({place: one.p_value for place, one in enumerate(made)})
        failed += any(is_significant(one, adjusted[place]) for place, one in enumerate(made))
    assert failed <= 7  # of 60; uncorrected, about 8 are expected


def test_a_loss_in_every_one_of_few_groups_is_larger_than_what_can_be_detected():
    base = np.linspace(0.5, 0.9, 5)
    a = [unit(g, 0, Mean(value)) for g, value in enumerate(base)]
    b = [unit(g, 0, Mean(value - 0.3 - g / 100)) for g, value in enumerate(base)]
    got = compare((M,), a, b, name="m")
    assert not got.is_worse and not is_significant(got, got.p_value)
    assert got.loss > limit(got, 0.02)
    assert limit(None, 0.02) == 0.02

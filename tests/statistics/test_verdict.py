"""The sentence on two runs says what interval and p say, in either order."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.scores import Corpus, Mean, Metric, UnitScore
from harness.statistics.paired import compare, groups_to_show

SCORE = Metric("score")
ERROR = Metric("error", better="lower")


def means(values, *, metric="score", per_group=1):
    return [
        UnitScore(
            unit=str(i),
            group=str(i // per_group),
            samples=(str(i),),
            categories={},
            failed=0,
            scores={metric: Mean(float(value))},
        )
        for i, value in enumerate(values)
    ]


def test_a_loss_in_every_one_of_ten_groups():
    a, b = means(np.full(10, 0.75)), means(0.25 - np.arange(10) / 100)
    result = compare((SCORE,), a, b, name="score")
    low, high = (abs(end) for end in result.interval)
    assert result.p_value == pytest.approx(2 / 2**10)  # both of all swaps that keep every sign
    assert result.verdict() == f"B is worse by 0.545 ({high:.3f} to {low:.3f}), p = 0.002"
    assert result.verdict("tiny").startswith("tiny is worse by 0.545 ")
    turned = compare((SCORE,), b, a, name="score").verdict()
    assert turned == result.verdict().replace("worse", "better")


def test_of_an_error_more_is_worse():
    a, b = means([1.0] * 10, metric="error"), means(range(2, 12), metric="error")
    assert compare((ERROR,), a, b, name="error").verdict().startswith("B is worse by 5.500 ")


def test_a_corrected_p_decides_and_is_the_one_that_is_printed():
    a, b = means(np.full(10, 0.75)), means(0.25 - np.arange(10) / 100)
    result = compare((SCORE,), a, b, name="score")
    assert result.verdict(adjusted_p=0.04).endswith(", p = 0.040")
    assert result.verdict(adjusted_p=0.06).startswith("no difference shown; 10 samples would show")
    assert result.verdict(tests=3, adjusted_p=0.04).endswith(", p = 0.040 (corrected for 3 tasks)")


def test_no_difference_names_the_size_that_would_have_been_shown():
    random = np.random.default_rng(3)
    a, b = (means(random.random(24) > 0.5) for _ in range(2))
    result = compare((SCORE,), a, b, name="score")
    assert result.p_value > 0.05
    size = f"{result.detectable:.3f}"
    assert result.verdict().startswith(
        f"no difference shown; 24 samples would show a difference of {size} or more in"
    )
    strict = float(re.search(r"difference of ([.\d]+)", result.verdict(tests=4, adjusted_p=1.0))[1])
    assert (
        strict == pytest.approx(result.smallest_shown(4), abs=1e-3) and strict > result.detectable
    )


@pytest.mark.parametrize(("groups", "words"), [(5, "(6 images or videos can)"), (6, "worse by")])
def test_five_groups_cannot_show_any_difference_and_six_can(groups, words):
    a, b = means(np.full(2 * groups, 0.9), per_group=2), means(np.zeros(2 * groups), per_group=2)
    result = compare((SCORE,), a, b, name="score")
    assert words in result.verdict()
    counts = f"{2 * groups} samples of {groups} images or videos"
    assert (counts in result.verdict()) == (groups == 5)


@pytest.mark.parametrize(("tests", "needed"), [(1, 6), (2, 7), (3, 7), (4, 8)])
def test_the_least_number_of_groups_is_that_of_a_p_of_one_in_twenty(tests, needed):
    assert groups_to_show(0.95, tests=tests) == needed
    assert tests * 2 ** (1 - needed) <= 0.05 < tests * 2 ** (2 - needed)


def test_equal_runs_and_runs_without_a_number():
    a = means(np.linspace(0, 1, 8))
    assert compare((SCORE,), a, a, name="score").verdict() == (
        "no difference: the same result on 8 samples"
    )
    empty = [
        UnitScore(
            unit=one.unit, group=one.group, samples=one.samples, categories={}, failed=1, scores={}
        )
        for one in a
    ]
    assert (
        compare((SCORE,), a, empty, name="score").verdict() == "no comparison: B without a number"
    )
    failed = [replace(one, failed=1) for one in means(np.zeros(8))]
    assert compare((SCORE,), failed, failed, name="score").verdict() == (
        "nothing was compared: neither run answered any of 8 samples"
    )
    assert compare((SCORE,), a, failed, name="score").verdict().startswith("B is worse")


def test_a_metric_of_a_corpus_has_its_verdict_too():
    total = Metric("total", corpus=lambda parts: sum(parts) / len(parts))

    def corpus(values):
        units = means(values)
        return [
            UnitScore(
                unit=one.unit,
                group=one.group,
                samples=one.samples,
                categories={},
                failed=0,
                scores={"total": Corpus((float(value),))},
            )
            for one, value in zip(units, values, strict=True)
        ]

    random = np.random.default_rng(0)
    a = random.random(40)
    result = compare(
        (total,), corpus(a), corpus(a - 0.5 + random.normal(0, 0.05, 40)), name="total"
    )
    assert result.method == "jackknife" and result.verdict().startswith("B is worse by 0.")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 0.5, 1]), st.sampled_from([0, 0.5, 1])),
        min_size=1,
        max_size=12,
    )
)
def test_the_sentence_says_what_the_test_says(pairs):
    a, b = (means(side) for side in zip(*pairs, strict=True))
    result = compare((SCORE,), a, b, name="score", resamples=99)
    text = result.verdict()
    assert ("is worse" in text) == result.is_worse and ("is better" in text) == result.is_better
    assert text.startswith("no difference") != (result.is_worse or result.is_better)

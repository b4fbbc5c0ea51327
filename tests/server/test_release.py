"""The Ladder: its laws, and what an adaptive attack gains under it and without it."""

import importlib.util
import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.leaderboards.server.release import bound, default_step, next_shown

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "ladder_attack.py"
scores = st.lists(st.floats(0, 1), min_size=1, max_size=40)


def shown_of(values, step, better="higher"):
    shown, history = None, []
    for value in values:
        shown = next_shown(shown, value, step, better)
        history.append(shown)
    return history


@given(scores, st.sampled_from([0.01, 1 / 6, 0.25]))
def test_a_score_moves_upward_by_whole_steps_and_stays_near_the_best(values, step):
    history = shown_of(values, step)
    for before, after in pairwise(history):
        assert after == before or after - before > step / 2
    assert max(values) - step - 1e-9 <= history[-1] <= max(values) + step / 2 + 1e-9
    assert all(math.isclose(value / step, round(value / step), abs_tol=1e-6) for value in history)
    assert len({*history}) <= 1 / step + 2  # so much is told at most


@given(scores, st.sampled_from([0.01, 0.25]))
def test_lower_is_better_mirrors_higher_is_better(values, step):
    mirrored = shown_of([-value for value in values], step, "lower")
    assert mirrored == [-value for value in shown_of(values, step)]


@given(scores)
def test_without_a_step_the_best_exact_score_is_shown(values):
    assert shown_of(values, 0.0) == [max(values[: n + 1]) for n in range(len(values))]


def test_a_score_that_there_is_not_moves_nothing():
    assert next_shown(None, None, 0.1) is None and next_shown(0.5, None, 0.1) == 0.5


def test_the_bound_is_that_of_the_theorem():
    """Worked by hand: n = 1,000, step 0.2, k = 10,000, level 0.95."""
    exponent = 7 * math.log(200_000) + 1 + math.log(20)
    assert bound(1000, 0.2, 10_000) == pytest.approx(math.sqrt(exponent / 2000) + 0.2)
    assert default_step(1000) == 1 / 63


@pytest.fixture(scope="module")
def attack():
    spec = importlib.util.spec_from_file_location("ladder_attack", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["majority", "climbing"])
def test_an_adaptive_attack_gains_little_under_the_ladder_and_much_without(name, attack):
    step, uploads = default_step(400), 3000
    gained = attack.gain(name, units=400, step=step, uploads=uploads, seed=0)
    assert abs(gained) <= bound(400, step, uploads) and gained < 0.2
    assert attack.gain(name, units=400, step=0.0, uploads=uploads, seed=0) > 0.3

"""Alarms of a training: each by hand, then those of stored trainings, then in a training."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.trainers.alarms import RULES, WINDOW, Alarms

RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "alarms.json"
SOUND = {
    "reward": 1.0,
    "frac_reward_zero_std": 0.4,
    "completions/clipped_ratio": 0.1,
    "completions/repetition": 0.01,
    "entropy": 0.5,
    "kl": 0.02,
    "rewards/format": 0.8,
    "rewards/accuracy": 0.6,
}


def raised(rows):
    """(name, step, since) of every alarm of rows, which are the steps from 1."""
    alarms = Alarms()
    for step, row in enumerate(rows, start=1):
        alarms.see(step, row)
    return [(one.name, one.step, one.since) for one in alarms.raised]


def with_numbers(**numbers):
    return {**SOUND, **{name.replace("__", "/"): value for name, value in numbers.items()}}


BROKEN = {
    "no_variance": {"frac_reward_zero_std": 1.0},
    "all_cut": {"completions__clipped_ratio": 1.0},
    "kl_runs_away": {"kl": 3.0},
    "repetition": {"completions__repetition": 0.7},
    "entropy_gone": {"entropy": 0.01},
}


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_each_limit_raises_its_alarm_once_and_only_its_own(name):
    broken = with_numbers(**BROKEN[name])
    found = raised([SOUND] * WINDOW + [broken] * 20)
    assert [one[0] for one in found] == [name]
    assert WINDOW < found[0][1] <= 2 * WINDOW
    assert found[0][2] == found[0][1] - WINDOW + 1


def test_a_sound_training_raises_nothing():
    assert raised([SOUND] * 200) == []


@pytest.mark.parametrize("name", list(BROKEN))
def test_an_odd_round_raises_nothing(name):
    rows = [SOUND] * 60
    for odd in (20, 40, 41):
        rows[odd] = with_numbers(**BROKEN[name])
    assert raised(rows) == []


def test_an_alarm_that_was_quiet_is_raised_again():
    broken = with_numbers(kl=3.0)
    steps = [step for _, step, _ in raised([broken] * 10 + [SOUND] * 30 + [broken] * 10)]
    assert len(steps) == 2 and steps[1] > 40
    flapping = [broken] * 5 + [SOUND] * 4
    assert len(raised(flapping * 6)) == 1


def hacked(form, accuracy, reward=1.0, rounds=20):
    """Rounds in which these change evenly to what is given, with a little noise."""
    for at in range(rounds):
        part, noise = at / (rounds - 1), 0.01 * (-1) ** at
        yield with_numbers(
            rewards__format=0.5 + part * (form - 0.5) + noise,
            rewards__accuracy=0.6 + part * (accuracy - 0.6) - noise,
            reward=1.0 + part * (reward - 1.0) + noise,
        )


@pytest.mark.parametrize(
    ("form", "accuracy", "reward", "is_hack"),
    [
        (1.0, 0.4, 1.0, True),  # form rises
        (0.5, 0.4, 1.5, True),  # the reward rises
        (0.5, 0.1, 0.9, True),  # nothing rises, and accuracy is not paid for
        (0.5, 0.1, 0.2, False),  # both fall: a training that fails, or an odd row of questions
        (0.5, 0.4, 1.0, False),
        (1.0, 0.6, 1.5, False),
        (1.0, 0.9, 1.5, False),
        (0.2, 0.9, 1.5, False),
    ],
)
def test_hacking_is_accuracy_that_falls_while_what_is_paid_does_not(
    form, accuracy, reward, is_hack
):
    found = [name for name, *_ in raised(hacked(form, accuracy, reward))]
    assert found == ["reward_hacking"] * is_hack


def test_hacking_late_in_a_training_is_found_too():
    rows = [with_numbers(rewards__accuracy=0.2)] * 20
    rows += [with_numbers(rewards__accuracy=0.6)] * 100 + list(hacked(1.0, 0.3))
    found = raised(rows)
    assert [name for name, *_ in found] == ["reward_hacking"]
    assert found[0][1] > 120


def test_a_component_of_form_is_no_accuracy_though_it_is_called_answer_format():
    rows = ({**row, "rewards/answer_format": 1 - row["rewards/format"]} for row in hacked(1.0, 0.6))
    assert raised(rows) == []


NUMBERS = st.one_of(st.floats(-1e6, 1e6), st.just(math.nan), st.just(math.inf))


@given(
    st.lists(st.dictionaries(st.sampled_from([*SOUND, "loss"]), NUMBERS), max_size=40),
    st.integers(0, 40),
)
def test_no_numbers_break_it_and_a_curve_that_is_read_again_leads_to_the_same(rows, cut):
    whole, resumed = Alarms(), Alarms()
    told = [whole.see(step, row) for step, row in enumerate(rows, start=1)]
    for step, row in enumerate(rows[:cut], start=1):
        resumed.see(step, row)
    again = [resumed.see(step, row) for step, row in enumerate(rows[cut:], start=cut + 1)]
    assert again == told[cut:]
    assert not any(told[: WINDOW - 1]) or all(one == ([], []) for one in told[: WINDOW - 1])


def replayed():
    stored = json.loads(RESULT.read_text("utf-8"))
    for name, run in stored["trainings"].items():
        rows = [dict(zip(run["numbers"], row, strict=True)) for row in run["rows"]]
        given = [{key: one for key, one in row.items() if one is not None} for row in rows]
        yield name, run["alarm"], raised(given), len(rows)


def test_all_planted_faults_are_found_and_one_honest_training_in_twenty_at_most_is_accused():
    planted = [one for one in replayed() if one[1] is not None]
    honest = [one for one in replayed() if one[1] is None]
    assert (len(planted), len(honest)) == (7, 20)
    for name, alarm, found, rounds in planted:
        assert any(one == alarm and step < rounds for one, step, _ in found), name
    assert sum(bool(found) for _, _, found, _ in honest) <= 1


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_limit_lies_between_what_was_measured(rule):
    """… of the stored curves, over WINDOW rounds."""
    extremes = {None: [], rule.name: []}
    for run in json.loads(RESULT.read_text("utf-8"))["trainings"].values():
        if run["alarm"] not in extremes or rule.number not in run["numbers"]:
            continue
        values = [row[run["numbers"].index(rule.number)] for row in run["rows"]]
        start = rule.typical(values[:WINDOW]) if rule.of_start else 1.0
        windows = (values[end - WINDOW : end] for end in range(WINDOW, len(values) + 1))
        found = [rule.typical(window) / start for window in windows]
        extremes[run["alarm"]].append(min(found) if rule.below else max(found))
    nearest = min if rule.below else max
    assert nearest(extremes[None]) == pytest.approx(rule.honest, abs=5e-3)
    (planted,) = extremes[rule.name]
    assert planted == pytest.approx(rule.planted, abs=5e-3)
    assert rule.limit == sorted([rule.honest, rule.limit, rule.planted])[1]

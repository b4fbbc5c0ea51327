"""EMA-GRPO by numbers worked by hand, and its averages in a state."""

from math import sqrt

import pytest

torch = pytest.importorskip("torch")

from harness.errors import UsageError  # noqa: E402
from harness.trainers.grpo.ema import MIN_STD, RewardMoments, ema_advantages  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402


def found(moments, tasks, *rewards):
    return ema_advantages(torch.tensor(rewards), 2, tasks=tasks, moments=moments).tolist()


def test_a_task_is_scaled_by_the_deviation_of_all_its_groups():
    moments = RewardMoments(0.9)
    # mask: mean 3/4, of squares 3/4, variance 3/16. choice: 5, 50, 25.
    gains = found(moments, ["mask", "choice", "mask"], 0.0, 1.0, 0.0, 10.0, 1.0, 1.0)
    whole = 0.5 / sqrt(3 / 16)
    assert gains == pytest.approx([-whole, whole, -1, 1, 0, 0], abs=1e-5)
    assert moments.moments == {"mask": (0.75, 0.75), "choice": (5.0, 50.0)}


def test_older_rounds_count_by_the_decay_and_the_new_one_before_it_is_scaled():
    moments = RewardMoments(0.75)
    found(moments, ["mask"], 0.0, 1.0)
    # mean 3/4 · 1/2 + 1/4 · 2 = 7/8; of squares 3/4 · 1/2 + 1/4 · 5 = 13/8; variance 55/64.
    gains = found(moments, ["mask"], 1.0, 3.0)
    assert moments.moments == {"mask": (0.875, 1.625)}
    assert gains == pytest.approx([-1 / sqrt(55 / 64), 1 / sqrt(55 / 64)], abs=1e-5)


def test_a_group_far_outside_of_its_task_is_scaled_by_itself():
    moments = RewardMoments(0.999)
    assert found(moments, ["mask"], 1.0, 1.0) == [0, 0]
    assert moments.std("mask") == MIN_STD
    # By the task ±0.5 / 0.0224 = ±22, beyond 5; by the group ±0.5 / 0.5. The other group stays.
    gains = found(moments, ["mask", "mask"], 0.0, 1.0, 1.0, 1.0)
    assert gains == pytest.approx([-1, 1, 0, 0], abs=1e-5)


def test_averages_come_back_from_a_state_to_the_bit(tmp_path):
    moments, again = RewardMoments(0.99), RewardMoments(0.99)
    for round_ in ([0.1, 0.7], [0.3, 0.9], [1 / 3, 0.2]):
        found(moments, ["mask_track"], *round_)
    moments.save(tmp_path)
    again.load(tmp_path)
    assert again.moments == moments.moments
    assert found(again, ["mask_track"], 0.4, 0.6) == found(moments, ["mask_track"], 0.4, 0.6)


def test_a_decay_above_one_is_refused():
    with pytest.raises(UsageError, match="ema_decay"):
        Settings(ema_decay=1.5)


def test_a_rollout_without_a_reward_counts_in_nothing():
    moments, none = RewardMoments(0.999), float("nan")
    # 0, 0 and 1 count: mean 1/3, of squares 1/3, variance 2/9.
    gains = found(moments, ["mask", "mask", "choice"], 0.0, none, 0.0, 1.0, none, none)
    whole = 0.5 / sqrt(2 / 9)
    assert gains == pytest.approx([0, 0, -whole, whole, 0, 0], abs=1e-5)
    assert list(moments.moments) == ["mask"], "of a form without any reward nothing is known"


def test_a_group_far_outside_is_scaled_by_the_rewards_that_it_has():
    moments, none = RewardMoments(0.999), float("nan")
    found(moments, ["mask"], 1.0, 1.0)
    rewards = torch.tensor([0.0, 1.0, none])
    gains = ema_advantages(rewards, 3, tasks=["mask"], moments=moments).tolist()
    assert gains == pytest.approx([-1, 1, 0], abs=1e-5)

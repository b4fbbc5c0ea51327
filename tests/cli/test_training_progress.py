"""What the progress of a training says on a terminal."""

import pytest

from harness.cli.training_progress import StepBars

RATE = "lr 1.0e-06"


@pytest.fixture
def shown(monkeypatch, capsys):
    """The line after a step with some numbers, on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def line(numbers):
        with StepBars() as steps:
            steps.start("training", 10_000, 9_990)
            steps.step(9_991, numbers)
        (info,) = capsys.readouterr().err.strip("\n").split("\n")
        assert len(info) <= 80
        return info

    return line


def test_the_mean_reward_is_shown_instead_of_a_loss_that_is_nothing(shown):
    info = shown({"loss": -0.0, "reward": 1.23456, "learning_rate": 1e-6})
    assert f"reward 1.235  {RATE}" in info and "loss" not in info


def test_a_training_without_a_reward_shows_its_loss(shown):
    info = shown({"loss": 0.5, "learning_rate": 1e-6})
    assert f"loss 0.5000  {RATE}" in info and "reward" not in info
    info = shown({"learning_rate": 1e-6})
    assert RATE in info and "loss" not in info


def test_no_numbers_are_shown_where_there_are_none(shown):
    assert "lr " not in shown({})


def test_a_long_reward_leaves_the_line_within_its_columns(shown):
    info = shown({"loss": 0.0, "reward": -36.1234, "learning_rate": 1e-6})
    assert f"reward -36.123  {RATE}" in info and " 9991/10000 " in info

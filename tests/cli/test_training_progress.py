"""What the progress of a training says: a line a step, on a terminal and in a log file."""

import re

import pytest

from harness.cli.training_progress import StepBars, TrainingLines, formatted_numbers

NUMBERS = {
    "loss": -0.0,
    "reward": 1.23456,
    "rewards/iou": 0.5,
    "rewards/iou/std": 0.1,
    "rewards/total": 1.23456,
    "kl": 0.01,
    "learning_rate": 1e-6,
    "clip_ratio/low_mean": 0.0,
    "clip_ratio/high_mean": 0.012,
    "step_time": 10.0,
    "timing_s/generation": 6.0,
    "timing_s/update": 3.0,
}


def test_a_step_says_its_reward_with_its_parts_clips_and_shares_of_time():
    line = "  ".join(formatted_numbers(NUMBERS))
    assert "reward 1.235  (iou 0.50)" in line
    assert "clip 0.0% low, 1.2% high" in line
    assert "10.0 s (generation 60%, update 30%)" in line
    assert list(formatted_numbers({})) == []


def test_a_log_file_has_a_line_a_step_with_the_time_left(capsys):
    lines = TrainingLines(quiet=False)
    lines.start("training", 100, 90)
    lines.step(91, NUMBERS)
    begin, step = capsys.readouterr().err.strip().split("\n")
    assert begin == "training: 100 steps, 90 done"
    lines.start("checking samples", 144, 0)
    assert "144" in (said := capsys.readouterr().err) and "step" not in said
    assert step.startswith("step 91/100  reward 1.235") and step.endswith("0:00, 0:00 left")


@pytest.mark.parametrize("given", [{"quiet": True}, {"quiet": False, "speaking": False}])
def test_nothing_is_said_where_nothing_is_wanted(capsys, given):
    lines = TrainingLines(**given)
    lines.start("training", 100, 90)
    lines.step(91, NUMBERS)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar_below_its_lines(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    with StepBars() as steps:
        steps.start("training", 10_000, 9_990)
        steps.step(9_991, {"loss": 0.5, "learning_rate": 1e-6})
    said = capsys.readouterr().err
    assert "step 9991  loss 0.5000  lr 1.0e-06" in said and "9991/10000" in said
    assert re.search(r"9991/10000.* 0:0\d", said), "the time since the start"

"""Estimates of hours against the three times that papers print, and by hand."""

import pytest

from harness.leaderboards.estimate import (
    OVERHEAD,
    Device,
    device_of,
    evaluation,
    parameters,
    training,
)
from harness.leaderboards.published_results import published_results

DR2SEG = {
    "num_generations": 8,
    "generation_batch_size": 128,
    "max_steps": 70,
    "max_prompt_length": 1300,
    "max_completion_length": 2000,
    "deepspeed": "zero3",
    "beta": 0.01,
}
CPU = device_of("CPU")
SMALL = {"size": 0.0026, "samples": 24, "device": CPU, "processes": 1}


def printed(paper, table, row):
    return next(
        one.value
        for one in published_results(paper)
        if one.table == table and row in one.row and one.unit in ("minutes", "s/image")
    )


@pytest.mark.parametrize(("row", "r_desc"), [("DR2Seg", True), ("VisionReasoner", False)])
def test_trainings_take_what_dr2seg_prints_within_a_factor_of_three(row, r_desc):
    found = training(
        {**DR2SEG, "r_desc": r_desc}, size=8.3, samples=239, device=device_of("L40"), processes=8
    )
    assert 1 / 3 < found.hours * 60 / printed("dr2seg", "text D.1", row) < 3
    assert 16 * 8.3 / 8 < found.memory < 48  # it ran on GPUs of 48 GB


def test_adaptation_takes_what_vr_ttrl_prints_within_a_factor_of_three():
    plain = {"size": 8.3, "samples": 200, "device": device_of("H100"), "is_video": False}
    adapted = evaluation(**plain, adaptation={"steps": 5, "rollouts": 8})
    seconds = adapted.hours * 3600 / 200
    assert 1 / 3 < seconds / printed("vr_ttrl", "7", "rollouts=8") < 3
    assert adapted.hours > 10 * evaluation(**plain).hours


def test_a_step_by_hand():
    device = Device("toy", 4000.0, 1e12, 1)  # reaches 1e15 operations a second
    config = {"num_generations": 2, "generation_batch_size": 4, "max_completion_length": 100}
    found = training(
        {**config, "max_prompt_length": 900}, size=1, samples=20, device=device, processes=2
    )
    assert found.steps == 10
    seconds = 10 * 4 * 1000 * 12e9 / (1e15 * 2) + 10 * 100 * OVERHEAD
    assert found.hours == pytest.approx(seconds / 3600)
    supervised = training(
        {"per_device_train_batch_size": 2, "max_length": 600},
        **{"size": 1, "samples": 20, "device": device, "processes": 2},
    )
    assert supervised.steps == 5
    assert supervised.hours == pytest.approx(5 * 4 * 1000 * 8e9 / 2e15 / 3600)


@pytest.mark.parametrize(
    ("text", "name"),
    [("NVIDIA H100 80GB HBM3, 81559 MiB", "H100"), ("NVIDIA L40S", "L40S"), ("none", None)],
)
def test_a_device_is_found_by_its_name(text, name):
    found = device_of(text)
    assert (found and found.name) == name


def test_a_network_is_as_large_as_its_name_says():
    names = ("a/DeepSeek-R1-Distill-Qwen-7B", "VisionReasoner-7B", "mine")
    assert [parameters(name) for name in names] == [8.3, 8.3, 8.3]


@pytest.mark.parametrize(
    ("found", "seconds"),
    [  # on two CPU cores, from the command's start to its end
        (training({**DR2SEG, "generation_batch_size": 64, "max_steps": 4}, **SMALL), 37),
        (evaluation(samples=24, is_video=False, size=0.0026, device=CPU), 19.4),
        (evaluation(samples=24, is_video=True, size=0.0026, device=CPU), 20.3),
        (evaluation(samples=12, is_video=False, size=0.0026, device=CPU, adaptation={}), 42),
    ],
)
def test_what_pocket_takes_is_within_a_factor_of_three_of_what_was_measured(found, seconds):
    assert 1 / 3 < found.hours * 3600 / seconds < 3
    assert found.memory == 1.0  # 0.79 GB were measured
    assert found.time.split()[1] in ("s", "min")

"""Estimates of hours against the three times that papers print, and by hand."""

import json

import pytest

from harness.leaderboards.definitions import find
from harness.leaderboards.estimate import (
    MIN_TOKEN_SECONDS,
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
    "gradient_checkpointing": True,
    "generation_micro_batch_size": 8,
}
CPU = device_of("CPU")
UPDATES = {"steps": 5, "rollouts": 8, "beta": 0.01}
SMALL = {"size": 0.0026, "samples": 24, "device": CPU}


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
    adapted = evaluation(**plain, adaptation={**UPDATES, "offload": "optimizer"})
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
    seconds = 10 * 4 * 1000 * 12e9 / (1e15 * 2) + 10 * 100 * MIN_TOKEN_SECONDS
    assert found.hours == pytest.approx(seconds / 3600)
    supervised = training(
        {"per_device_train_batch_size": 2, "max_length": 600},
        **{"size": 1, "samples": 20, "device": device, "processes": 2},
    )
    assert supervised.steps == 5
    assert supervised.hours == pytest.approx(5 * 4 * 1000 * 8e9 / 2e15 / 3600)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVIDIA H100 80GB HBM3, 81559 MiB", "H100"),
        ("NVIDIA L40S", "L40S"),
        ("none", None),
        ("GeForce RTX4090", "RTX 4090"),
        # Two A100 differ in memory; a bare name is neither, and no A10.
        ("NVIDIA A100-SXM4-40GB, 40960 MiB", "A100-40GB"),
        ("a100-80gb", "A100-80GB"),
        ("A100", None),
    ],
)
def test_a_device_is_found_by_its_name(text, name):
    found = device_of(text)
    assert (found and found.name) == name


def test_a_network_in_a_folder_is_as_large_as_its_files(tmp_path):
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "BF16", "shape": [1000, 2000], "data_offsets": [0, 4_000_000]},
            "b": {"dtype": "BF16", "shape": [5], "data_offsets": [4_000_000, 4_000_010]},
        }
    ).encode()
    (tmp_path / "checkpoint").mkdir()
    file = tmp_path / "checkpoint" / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    for folder in (tmp_path, tmp_path / "checkpoint"):
        assert parameters(str(folder)) == 2_000_005 / 1e9
    file.write_bytes(file.read_bytes()[:20])
    assert parameters(str(tmp_path)) == parameters("mine")


def test_a_network_is_as_large_as_its_name_says():
    names = ("a/DeepSeek-R1-Distill-Qwen-7B", "VisionReasoner-7B", "mine")
    assert [parameters(name) for name in names] == [7.6, 8.3, 8.3]


H100 = {"samples": 200, "device": device_of("H100"), "is_video": False}


@pytest.mark.parametrize(
    ("size", "settings", "fits"),
    [
        (8.3, {}, "nothing smaller than B200"),
        (3.75, {}, "H200"),
        (8.3, {"offload": "optimizer"}, "H100"),  # what VR-TTRL had
        (3.75, {"offload": "optimizer"}, "A100-40GB"),
        (8.3, {"finetune": "lora"}, "L40S"),
    ],
)
def test_memory_of_adaptation_follows_finetune_and_offload(size, settings, fits):
    """4 bytes a weight and as many for its gradient, 8 for moments; activations of one response."""
    found = evaluation(size=size, adaptation={**UPDATES, **settings}, **H100)
    device = device_of(fits)
    if device is None:
        assert found.memory > 141
    else:
        assert device.memory * 0.4 < found.memory < device.memory
    width = {"lora": 2}.get(settings.get("finetune"), 4 if settings else 16)
    assert found.memory > width * size
    assert found.host == (20 * size if "offload" in settings else 4 * size if not settings else 0)


def test_a_vote_takes_as_many_answers_as_rollouts_and_no_memory_to_learn():
    plain = evaluation(size=8.3, **H100)
    vote = evaluation(size=8.3, adaptation={"rollouts": 8}, **H100)
    more = evaluation(size=8.3, adaptation={"rollouts": 32}, **H100)
    assert vote.memory <= plain.memory and vote.host == 0
    assert vote.hours / plain.hours > 2, "drawn for one sample, not in a batch of eight"
    assert more.hours > vote.hours


def test_perception_and_long_answers_count():
    """DT-R1 writes plans, code and answers, and networks look at each frame."""
    for is_video in (False, True):
        given = {**H100, "is_video": is_video, "size": 7.6}
        assert evaluation(model="dt_r1", **given).hours > 2 * evaluation(**given).hours
    config = {**DR2SEG, "max_completion_length": 8192, "deepspeed": None}
    given = {"size": 7.6, "samples": 1000, "device": device_of("RTX 4090"), "processes": 16}
    assert training(config, model="dt_r1", **given).hours > 2 * training(config, **given).hours


def test_the_papers_own_devices_hold_what_they_trained():
    """DT-R1: sixteen RTX 4090; DR2Seg: eight L40, as above."""
    step = find("dt_r1", "1").trainings["dt_r1_7b"]
    found = training(
        {"num_generations": 8, **step.read()},
        **{"size": 7.6, "samples": 1000, "processes": step.processes, "model": "dt_r1"},
        device=device_of("RTX 4090"),
    )
    assert 15.2 < found.memory < 24 and (step.processes, step.machines) == (16, 2)


@pytest.mark.parametrize(
    ("found", "seconds"),
    [  # on two CPU cores, from the command's start to its end
        (
            training({**DR2SEG, "generation_batch_size": 64, "max_steps": 4}, **SMALL, processes=1),
            37,
        ),
        (evaluation(**SMALL, is_video=False), 6.5),
        (evaluation(**SMALL, is_video=True), 7.8),
        (evaluation(**{**SMALL, "samples": 12}, is_video=False, adaptation=UPDATES), 42),
    ],
)
def test_what_pocket_takes_is_within_a_factor_of_three_of_what_was_measured(found, seconds):
    assert 1 / 3 < found.hours * 3600 / seconds < 3
    assert found.memory == 1.0  # 0.79 GB were measured
    assert found.time.split()[1] in ("s", "min")

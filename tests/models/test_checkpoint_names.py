"""A checkpoint's folder has one name in records, however it is typed."""

from pathlib import Path

import pytest

from harness.chosen.names import named_models
from harness.models.backends.checkpoint import short_path


@pytest.fixture
def training(tmp_path, monkeypatch):
    """A training's folder `runs/mine`, with its checkpoint in it."""
    monkeypatch.chdir(tmp_path)
    inner = Path("runs/mine/checkpoint")
    inner.mkdir(parents=True)
    for name in ("config.json", "harness.json"):
        (inner / name).write_text("{}")
    return tmp_path / "runs" / "mine"


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("runs/mine", "runs/mine"),
        ("runs/mine/", "runs/mine"),
        ("runs//mine/checkpoint", "runs/mine"),
        ("runs/mine/checkpoint/", "runs/mine"),
        ("./runs/mine/checkpoint", "./runs/mine"),
    ],
)
def test_each_way_to_type_a_trainings_checkpoint_has_one_name(training, typed, name):
    assert short_path(typed) == name
    ((_, spec),) = named_models(f"qwen_vl(checkpoint={typed})")
    assert spec.arguments["checkpoint"] == name
    assert short_path(f"{training}/checkpoint") == str(training)


def test_other_folders_and_names_stay(training):
    for name in ("pocket", "Qwen/Qwen2.5-VL-7B-Instruct", "runs/gone/"):
        assert short_path(name) == name
    alone = training.parent / "other" / "checkpoint"  # the weights of somebody else
    alone.mkdir(parents=True)
    (alone / "config.json").write_text("{}")
    assert short_path(str(alone)) == str(alone)
    (training / "config.json").write_text("{}")  # a network lies beside the checkpoint
    assert short_path(f"{training}/checkpoint") == f"{training}/checkpoint"

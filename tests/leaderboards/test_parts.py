"""What rows say of a model's parts: hashes of weights, and badges of toys and classical parts."""

import json

import pytest

from harness.leaderboards.parts import badges, weights
from harness.leaderboards.row import row
from harness.models.backends.checkpoint import training_record
from harness.record import Run

DESCRIPTION = {
    "name": "visionreasoner",
    "chat": {"checkpoint": "pocket", "weights": "aa", "adapter_weights": "bb"},
    "segmenter": {"name": "sam2", "checkpoint": "pocket-sam", "weights": "cc"},
    "propagator": {"name": "flow", "max_side": 480},
}


def test_weights_are_named_by_the_place_of_their_part():
    found = weights({**DESCRIPTION, "weights": "dd"})
    assert found == {"model": "dd", "chat": "aa", "chat.adapter_weights": "bb", "segmenter": "cc"}


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        ("reason_seg", ("pocket", "pocket-sam")),
        ("mevis", ("pocket", "pocket-sam", "flow")),
        ("counting", ("pocket",)),
        ("a task without a card", ("pocket", "pocket-sam", "flow")),
    ],
)
def test_a_badge_is_of_a_part_that_decides_the_answers(task, wanted):
    assert badges(DESCRIPTION, task) == wanted


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (("choice",), ("pocket",)),
        (("mask",), ("pocket", "pocket-sam")),
        ((), ("pocket", "pocket-sam", "flow")),
    ],
)
def test_of_a_task_without_a_card_the_forms_that_a_run_was_asked_for_count(asked, wanted):
    assert badges(DESCRIPTION, "a task without a card", asked) == wanted


@pytest.mark.parametrize(
    ("task", "wanted"), [("disc_seg", ("grabcut",)), ("disc_video", ("grabcut", "flow"))]
)
def test_a_run_without_responses_goes_by_the_forms_of_its_task(make_run, task, wanted):
    parts = {"segmenter": {"name": "grabcut"}, "propagator": {"name": "flow"}}
    model = {"spec": "m", "name": "m", "description": parts}
    run = make_run("runs/a", task=task, model="m", changes={"manifest": {"model": model}})
    assert row(Run.open(run)).badges == wanted


def test_a_real_network_has_no_badge():
    parts = {"chat": {"checkpoint": "Qwen/Qwen2.5-VL-7B-Instruct"}, "segmenter": {"name": "sam2"}}
    assert badges({"name": "qwen_vl", **parts}, "reason_seg") == ()


@pytest.mark.parametrize(
    ("trained", "wanted"),
    [
        ({"method": "dr2seg(n0=1)", "checkpoint": "pocket-base"}, ("pocket-base",)),
        ({"method": "pocket(max_steps=9)"}, ("pocket",)),
        ({"method": "dr2seg", "checkpoint": "Qwen/Qwen2.5-VL-7B-Instruct"}, ()),
        ({"method": "dr2seg"}, ()),
    ],
)
def test_a_network_that_was_trained_from_a_toy_is_one(trained, wanted):
    chat = {"checkpoint": "runs/mine/checkpoint", "trained": trained}
    assert badges({"name": "dr2seg", "chat": chat}, "counting") == wanted


def test_a_training_record_names_the_checkpoint_that_the_first_training_began_with(tmp_path):
    plain = {"method": {"spec": "sft"}, "tasks": [], "seed": 0, "config_hash": "c"}
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, start, trained in (
        (first, "pocket", {"method": "pocket(seed=3)"}),
        (second, str(first), {"method": "sft", "checkpoint": "pocket"}),
    ):
        folder.mkdir()
        chat = {"checkpoint": start, "trained": trained}
        model = {"base": {"checkpoint": start}, "description": {"chat": chat}}
        (folder / "harness.json").write_text(json.dumps({**plain, "model": model}))
        assert training_record(folder)["checkpoint"] == "pocket"
    (first / "harness.json").write_text(json.dumps({**plain, "model": None}))
    assert "checkpoint" not in training_record(first)

"""What rows say of a model's parts: hashes of weights, and badges of toys and classical parts."""

import pytest

from harness.leaderboards.parts import badges, weights

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


def test_a_real_network_has_no_badge():
    parts = {"chat": {"checkpoint": "Qwen/Qwen2.5-VL-7B-Instruct"}, "segmenter": {"name": "sam2"}}
    assert badges({"name": "qwen_vl", **parts}, "reason_seg") == ()

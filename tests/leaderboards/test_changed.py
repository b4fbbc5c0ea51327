"""What two records differ in, in a reader's words."""

from types import SimpleNamespace

import pytest

from harness.leaderboards.differences.changed import changed
from harness.leaderboards.differences.diff import _are_scored_alike


def run(description, *, commit="a" * 40, dirty=False, packages=None, spec="m"):
    return SimpleNamespace(
        manifest={
            "model": {"spec": spec, "name": "m", "description": description},
            "seed": 0,
            "provenance": {"commit": commit, "dirty": dirty, "packages": packages or {}},
        }
    )


def test_settings_weights_and_code_are_named_and_the_machine_is_not():
    a = run({"name": "m", "chat": {"weights": "8f", "device": "cpu"}, "batch_size": 8, "frames": 8})
    b = run(
        {"name": "m", "chat": {"weights": "82", "device": "cuda"}, "batch_size": 1, "frames": 16},
        dirty=True,
        packages={"torch": "2.1"},
    )
    assert changed(a, b) == [
        "chat.weights: 8f → 82",
        "frames: 8 → 16",
        "code: aaaaaaa → aaaaaaa with changes",
        "torch: none → 2.1",
    ]
    assert changed(a, a) == []


def test_of_two_models_only_the_names_are_given():
    a, b = run({"name": "saliency", "frames": 8}), run({"name": "pocket", "retry": True})
    assert changed(a, b) == ["model: saliency → pocket"]
    masks = run({"predictions": "png", "content": "6c637de5"})
    assert changed(a, masks) == ["model: saliency → predictions of another program (png)"]


def test_another_part_is_named_and_its_settings_are_compared_where_both_have_one():
    a = run({"name": "m", "segmenter": {"name": "sam2", "size": "b"}})
    b = run({"name": "m", "segmenter": {"name": "sam2", "size": "l"}})
    none = run({"name": "m", "segmenter": None})
    assert changed(a, b) == ["segmenter.size: b → l"]
    assert changed(a, none) == ["segmenter: sam2 → none"]


@pytest.mark.parametrize(
    ("task", "alike"),
    [
        ({"protocol": "p", "arguments": {"judge": "chat"}}, True),
        ({"protocol": "q", "arguments": {"judge": "chat"}}, False),
        ({"protocol": "p", "arguments": {"judge": "another"}}, False),
        ({"protocol": "p", "arguments": {}}, False),
    ],
)
def test_a_verdict_needs_one_protocol_and_one_judge(task, alike):
    first = SimpleNamespace(manifest={"task": {"protocol": "p", "arguments": {"judge": "chat"}}})
    assert _are_scored_alike(first, SimpleNamespace(manifest={"task": task})) is alike

"""What two records differ in, in a reader's words."""

from types import SimpleNamespace

import pytest

from harness.leaderboards.differences.changed import PACKAGE_WORDS, changed, plugin_changes
from harness.leaderboards.differences.diff import _are_scored_alike


def run(
    description,
    *,
    commit="a" * 40,
    dirty=False,
    packages=None,
    spec="m",
    metrics=(),
    judge=None,
    forms=(),
):
    return SimpleNamespace(
        manifest={
            "model": {"spec": spec, "name": "m", "description": description},
            "task": {"arguments": {} if judge is None else {"judge": judge}},
            "seed": 0,
            "provenance": {"commit": commit, "dirty": dirty, "packages": packages or {}},
        },
        results={"metrics": dict.fromkeys(metrics, 0.5), "forms": list(forms)},
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


@pytest.mark.parametrize(
    ("description", "metrics", "listed"),
    [
        ({"name": "m"}, ["gIoU"], []),
        ({"name": "m", "adapter": "mine"}, ["gIoU"], ["peft"]),
        ({"name": "m", "chat": {"backend": "vllm"}}, ["BERTScore"], ["bert-score", "vllm"]),
        ({"name": "m"}, ["CIDEr"], ["pycocoevalcap"]),
    ],
)
def test_packages_that_no_part_or_metric_of_the_runs_uses_are_left_out(
    description, metrics, listed
):
    packages = dict.fromkeys((*PACKAGE_WORDS, "numpy"), "1")
    a = run(description, metrics=metrics)
    b = run(description, metrics=metrics, packages=packages)
    assert [line.split(":")[0] for line in changed(a, b)] == sorted([*listed, "numpy"])
    judged = run(description, metrics=metrics, judge="vllm(model=x)")
    assert "vllm: 1 → none" in changed(b, judged)


def test_a_text_of_a_plugin_that_one_run_lacks_is_named_in_both_directions():
    files = {"model.py": "1", "prompts/a.txt": "2"}
    sides = [{"plugins": {"mine": {"files": each}}} for each in (files, {"model.py": "1"})]
    line = "code of mine, prompts/a.txt differs"
    assert [list(plugin_changes(*pair)) for pair in (sides, sides[::-1])] == [[line], [line]]
    assert not list(plugin_changes(*sides[:1] * 2))


def test_of_two_models_only_the_names_are_given():
    a, b = run({"name": "saliency", "frames": 8}), run({"name": "pocket", "retry": True})
    assert changed(a, b) == ["model: saliency → pocket"]
    masks = run({"predictions": "png", "content": "6c637de5"})
    assert changed(a, masks) == ["model: saliency → m (predictions, png)"]


def test_another_prompt_of_one_model_is_shown():
    a = run({"name": "pocket", "prompt": "visionreasoner"})
    b = run({"name": "pocket/own", "prompt": "own"})
    assert changed(a, b) == ["name: pocket → pocket/own", "prompt: visionreasoner → own"]


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


def test_only_prompts_of_the_forms_of_the_task_are_shown():
    places, words = {"prompt_text": "Find QUESTION"}, {"choice": "QUESTION?", "text": "QUESTION."}
    own = {"prompt_text": "Look. QUESTION", "words_text": {"choice": "Look.", "text": "Look!"}}
    pair = {"name": "m", **places, "words_text": words}, {"name": "m", **own}

    def shown(*forms, pair=pair):
        return changed(*(run(description, forms=forms) for description in pair))

    in_words = "prompt_text.choice: '{question}?' → 'Look.'"
    in_places = "prompt_text: 'Find {question}' → 'Look. {question}'"
    assert shown("choice") == [in_words] and shown("mask") == [in_places]
    assert shown("choice", "mask") == [in_places, in_words]
    before = {"name": "m", **places}, pair[1]  # an earlier version did not record it
    assert shown("choice", pair=before) == []
    readers = [{"name": "m", "reader": description} for description in before]
    assert shown("choice", pair=readers) == [f"reader.{in_places}"]

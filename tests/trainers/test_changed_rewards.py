"""A plain function reads the reward of a method, and changes one component of it."""

import re
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from harness import media, plugins
from harness.errors import ModelError, UsageError
from harness.spec import parse
from harness.trainers.dr2seg.rewards import DR2SegReward
from harness.trainers.grpo.functions import settings_of_reward
from harness.trainers.grpo.method import ComponentReward, Group, Rollout
from harness.trainers.grpo.rewards import reward_group
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer, grpo, how_to_evaluate, request_key
from harness.types import Answer, AnswerForm, Box, Query, Sample, Target

SOURCE = """
def same(response, sample, *, rewards):
    return dict(rewards)

def half_length(response, sample, **facts):
    rewards = facts["rewards"]
    return {**rewards, "length": 0.5 * rewards["length"]}

def bonus(response, sample, *, rewards, tokens, **facts):
    return {**rewards, "brevity": 1.0 / tokens}

def number(response, sample, *, rewards):
    return 0.5 * rewards.total

def beside(response, sample, *, rewards):
    return {"place": rewards["accuracy"], "words": 1.0}

def own_total(response, sample, *, rewards):
    return {**rewards, "total": 7.0}

def lacking(response, sample, *, rewards):
    return {"accuracy": rewards["accuracy"]}

def only_logged(response, sample, *, rewards):
    return {**rewards, "bboxes_iou": 5.0}

def computed(response, sample, *, rewards):
    return {**rewards, "length_factor": 1.0}

def early(response, sample, *, rewards, **facts):
    if not response:
        names = ("accuracy", "answer_format", "non_repeat", "thinking_format")
        return dict.fromkeys(names, 0.0)
    return dict(rewards)

def like_named(response, sample, **facts):
    if response == "read":
        return dict(facts["rewards"])
    return {"accuracy": 0.25, "own": 0.5}

def unread(response, sample, **facts):
    return len(response)

def blind(response, sample, *, tokens):
    return tokens
"""
GOOD = '[{"bbox_2d": [10, 10, 50, 50], "point_2d": [30, 30]}]'
RESPONSE = f"<think>a b</think><description>a red square</description><answer>{GOOD}</answer>"
AGAIN = f"<think>a</think><description>a red square</description><answer>{GOOD}</answer>"
WRONG = RESPONSE.replace("10, 10, 50, 50", "400, 400, 600, 600")


@pytest.fixture(autouse=True)
def functions(tmp_path, monkeypatch):
    names = [line.split("(")[0].split()[-1] for line in SOURCE.splitlines() if "def " in line]
    info = tmp_path / "changed-1.0.dist-info"
    info.mkdir()
    (tmp_path / "changed_rewards.py").write_text(SOURCE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: changed\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = changed_rewards:{name}" for name in names)
    (info / "entry_points.txt").write_text(f"[harness.rewards]\n{lines}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("changed_rewards", None)


def group(*texts):
    """Two-pass rollouts of a video frame with one box; each second response reasons less."""
    shown = media.pixels([np.zeros((840, 840, 3), np.uint8)], times=[0.0], is_video=False, id="x")
    query = Query(id="q", text="?", media=(shown,), forms=(AnswerForm.BOXES,))
    target = Target(answer=Answer(boxes=(Box(10.0, 10.0, 50.0, 50.0),)))
    return Group(
        sample=Sample(id="s", query=query, target=target),
        task="t",
        rollouts=tuple(Rollout(text=text, tokens=10) for text in texts),
        seconds=tuple(Rollout(text=AGAIN, tokens=5) for _ in texts),
        canvas=(840, 840),
        count_tokens=lambda text: len(text.split()),
        frames=((0,),),
    )


def rewarded(spec, *texts):
    method = plugins.build("trainers", parse(spec))
    return reward_group(method.rewarded, group(*texts), [""] * len(texts), seed=0)


@pytest.mark.parametrize("method", ["dr2seg", "dr2seg(r_len=false)", "visionreasoner", "vr_ttrl"])
def test_the_components_of_a_method_unchanged_are_its_own_reward(method):
    texts = (RESPONSE, WRONG, "nothing")
    spec = f"{method[:-1]},reward=same)" if method.endswith(")") else f"{method}(reward=same)"
    assert rewarded(spec, *texts) == rewarded(method, *texts)
    totals = [components["total"] for components in rewarded(method, *texts)]
    assert rewarded(spec.replace("same", "number"), *texts) == [
        {"number": 0.5 * total, "total": 0.5 * total} for total in totals
    ]


@pytest.mark.parametrize("name", ["early", "like_named"])
def test_a_rollouts_reward_does_not_depend_on_whether_others_read_the_methods(name):
    """Of a function that may read `rewards`, and of one that names them and need not."""
    spec = f"visionreasoner(reward={name})"
    for text in ("", RESPONSE, "read"):
        alone = rewarded(spec, text)[0]
        for others in (("read",), (RESPONSE, ""), ("other",)):
            assert rewarded(spec, text, *others)[0] == alone, (text, others)


def test_a_changed_component_of_two_passes_changes_the_product_of_the_group():
    """Reasoning of 2 tokens, of 1 in the second pass: R_len = 1, halved by the function (Eq. 7)."""
    own = rewarded("dr2seg", RESPONSE, "nothing")
    changed = rewarded("dr2seg(reward=half_length)", RESPONSE, "nothing")
    assert (own[0]["length"], own[0]["length_factor"]) == (1.0, 1.0)
    assert (changed[0]["length"], changed[0]["length_factor"]) == (0.5, 0.5)
    assert changed[0]["total"] == 0.5 * own[0]["total"] > 0
    assert changed[1] == own[1]
    unsolved = "dr2seg(reward=half_length)", WRONG, "nothing"
    assert [one["length_factor"] for one in rewarded(*unsolved)] == [1.0, 1.0], "the gate is shut"


def test_further_components_are_added_to_the_total():
    (own,), (more,) = (rewarded(f"dr2seg{name}", RESPONSE) for name in ("", "(reward=bonus)"))
    assert more == {**own, "brevity": 0.1, "total": own["total"] + 0.1}
    assert rewarded("dr2seg(reward=beside)", RESPONSE) == [
        {"place": own["accuracy"], "words": 1.0, "total": own["accuracy"] + 1.0}
    ]
    assert rewarded("dr2seg(reward=own_total)", RESPONSE)[0]["total"] == 7.0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lacking", "thinking_format.*found no 'answer_format'"),
        ("only_logged", "found 'bboxes_iou', on which that total does not depend"),
        ("computed", "found 'length_factor'"),
    ],
)
def test_components_that_leave_the_total_open_are_refused(name, said):
    with pytest.raises(ModelError, match=said):
        rewarded(f"dr2seg(reward={name})", RESPONSE)


def test_a_reward_that_is_only_a_function_of_a_group_wants_a_total_beside_changed_components():
    def plain(group):
        return [{"accuracy": 1.0, "total": 3.0} for _ in group.rollouts]

    def method(name):
        return GrpoTrainer(name="m", settings=Settings(reward=name), reward=plain).rewarded

    assert method("number").reward(group("a")) == [{"number": 1.5, "total": 1.5}]
    assert method("own_total").reward(group("a")) == [{"accuracy": 1.0, "total": 7.0}]
    with pytest.raises(ModelError, match="'total' among them"):
        method("same").reward(group("a"))


@dataclass(frozen=True)
class Counted(ComponentReward):
    calls: list[Any]

    def components(self, group):
        self.calls.append(group)
        return [{"accuracy": 1.0}] * len(group.rollouts)


def test_the_reward_of_the_method_is_computed_once_a_group_and_only_if_it_is_read():
    for name, calls in (("unread", 0), ("bonus", 1), ("number", 1), ("blind", 0)):
        reward = Counted([])
        GrpoTrainer(name="m", settings=Settings(reward=name), reward=reward).rewarded.reward(
            group("a", "b", "c")
        )
        assert len(reward.calls) == calls, name


def test_the_trainer_without_a_reward_of_its_own_has_none_to_read():
    with pytest.raises(ModelError, match="rewards"):
        grpo(reward="number")


def test_settings_of_a_reward_that_is_replaced_are_refused_and_not_recorded():
    with pytest.raises(UsageError, match=r"reward=blind.*found n0=30"):
        plugins.build("trainers", parse("dr2seg(reward=blind,n0=30)"))
    with pytest.raises(UsageError, match="semantics"):
        plugins.build("trainers", parse("visionreasoner(reward=blind,semantics=paper)"))
    blind, reading = (
        plugins.build("trainers", parse(f"dr2seg(reward={name})")) for name in ("blind", "unread")
    )
    idle = {"n0", "gamma", "gate_threshold", "len_floor", "semantics"}
    assert set(blind.unused) == idle == settings_of_reward("dr2seg") and reading.unused == []
    assert not idle & blind.describe().keys() and idle <= reading.describe().keys()
    assert blind.describe()["longest_description"] and blind.describe()["r_desc"]


@pytest.mark.parametrize(
    ("function", "effect"),
    [("same", "changes"), ("bonus", "changes"), ("unread", "unless"), ("blind", "n0")],
)
def test_the_start_says_whether_a_function_changes_the_reward_or_replaces_it(function, effect):
    note = plugins.build("trainers", parse(f"dr2seg(reward={function})")).rewarded._replaced()
    assert effect in note and ("replaces" in note) is (effect != "changes")


@pytest.mark.parametrize("method", ["dr2seg", "visionreasoner", "seg_zero"])
def test_the_model_that_the_start_names_requests_as_the_training_does(method):
    start = parse("pocket(segmenter=box)")
    model = plugins.build("trainers", parse(method)).with_prompt(plugins.build("models", start))
    option = how_to_evaluate(method, start, model)
    spec = re.search(r'"(.+)"', option)[1].replace("{checkpoint}", "pocket")
    evaluated = plugins.build("models", parse(spec))
    prompt = slice(0, 3)  # the words of questions without objects are pocket's own
    assert request_key(evaluated)[prompt] == request_key(model)[prompt]
    assert type(evaluated.segmenter) is type(model.segmenter)


def test_no_model_is_named_for_a_method_without_one():
    start = parse("pocket")
    model = plugins.build("models", start)
    assert how_to_evaluate("vr_ttrl", start, model) == how_to_evaluate("own", start, model) == ""


def test_every_method_gives_its_components_with_the_names_of_its_total():
    reward = DR2SegReward()
    components = reward.components(group(RESPONSE))
    assert reward(group(RESPONSE)) == [{**components[0], **reward.totals(components)[0]}]
    assert replace(reward, r_len=False).totals(components)[0]["length_factor"] == 1.0

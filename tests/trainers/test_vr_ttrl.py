"""VR-TTRL offline learns from consensus alone: targets are neither needed nor seen."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from harness import plugins
from harness.spec import parse
from harness.tasks.reason_seg import writer
from harness.trainer import TrainingRun
from harness.trainers.grpo.examples import Example, make_examples
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.vr_ttrl.rewards import ConsensusReward
from harness.world.shapes import make

P = {"bbox_2d": [0, 0, 99, 99], "point_2d": [50, 50]}
Q = {"bbox_2d": [500, 500, 700, 700], "point_2d": [600, 600]}


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    root = tmp_path_factory.mktemp("shapes") / "data"
    make(root, seed=5, size=1, writers={"reason_seg": writer.write})
    return plugins.build("tasks", parse("reason_seg(split=train)"), root)


def test_samples_are_taken_without_their_targets(task, tmp_path):
    method = plugins.build("trainers", parse("vr_ttrl"))
    other = plugins.build("trainers", parse("visionreasoner"))
    model = plugins.build("models", parse("pocket"))
    blind = replace(
        task, samples=lambda: (replace(one, target=None) for one in list(task.samples()))
    )
    for given in (task, blind):
        found = list(make_examples(method, model, TrainingRun(out=tmp_path, tasks=(given,))))
        assert found and all(isinstance(one, Example) for one in found)
        assert all(one.sample.target is None for one in found)
    dropped = list(make_examples(other, model, TrainingRun(out=tmp_path, tasks=(blind,))))
    assert dropped and not any(isinstance(one, Example) for one in dropped)


def test_a_group_is_rewarded_by_what_most_of_it_says(task):
    texts = [f"<think>a</think><answer>{json.dumps([one])}</answer>" for one in (Q, P, P)]
    group = Group(
        sample=replace(next(iter(task.samples())), target=None),
        rollouts=tuple(Rollout(text=text, tokens=9) for text in (*texts, "nothing")),
        canvas=(840, 840),
        count_tokens=len,
    )
    found = ConsensusReward()(group)
    assert [one["total"] for one in found] == [4.0, 7.0, 7.0, 1.0]
    assert [one["accuracy"] for one in found] == [0.0, 3.0, 3.0, 0.0]
    assert {one["agreement"] for one in found} == {1.0}

"""Rewards that are plain functions: what they are given, what they may return, what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from harness import media, plugins
from harness.errors import ModelError, UnknownPlugin, UsageError
from harness.spec import parse
from harness.trainers.grpo.functions import FACTS
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.grpo.rewards import numbers_of, reward_group, summary_of
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer, grpo
from harness.types import Answer, AnswerForm, Query, Sample, Target

SOURCE = """
seen = []

def everything(response, sample, **facts):
    seen.append((response, sample.id, facts))
    return len(response)

def some(response, sample, *, cut, canvas=None):
    return {"long": len(response) / 10, "whole": not cut, "never": None}

def weighed(response, sample, **facts):
    return {"near": 1.0, "far": 5.0, "total": 0.25}

def sometimes(response, sample, **facts):
    return None if response == "" else {"long": len(response), "never": None}

def note(response, sample, *, code):
    return code

def unknown(response, sample, *, colour):
    return 1.0

def nothing():
    return 1.0

async def later(response, sample, **facts):
    return 1.0

def wrong(response, sample, **facts):
    return {"words": "many"}

number = 7
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """An installed package with plain functions; nothing of it is a class or a trainer."""
    names = [line.split("(")[0].split()[-1] for line in SOURCE.splitlines() if "def " in line]
    info = tmp_path / "plain-1.0.dist-info"
    info.mkdir()
    (tmp_path / "plain_functions.py").write_text(SOURCE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plain\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = plain_functions:{name}" for name in [*names, "number"])
    (info / "entry_points.txt").write_text(f"[harness.rewards]\n{lines}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    import sys

    sys.modules.pop("plain_functions", None)


def group(*texts, facts=None):
    shown = media.pixels([np.zeros((4, 6, 3), np.uint8)], times=[0.0], is_video=False, id="x")
    query = Query(id="q", text="?", media=(shown,), forms=(AnswerForm.MASK,))
    return Group(
        sample=Sample(id="s", query=query, target=Target(answer=Answer(no_target=True))),
        task="t",
        rollouts=tuple(
            Rollout(text=text, tokens=len(text), cut=not text, facts=facts or {}) for text in texts
        ),
        canvas=(6, 4),
        count_tokens=len,
        frames=((0,),),
    )


def rewarded(name, *texts, **more):
    method = grpo(reward=name)
    return reward_group(method.rewarded, group(*texts, **more), [""] * len(texts), seed=0)


def test_a_function_gets_the_response_the_sample_and_every_fact(functions):
    assert rewarded("everything", "ab", "abc") == [
        {"everything": 2.0, "total": 2.0},
        {"everything": 3.0, "total": 3.0},
    ]
    import plain_functions

    response, sample, facts = plain_functions.seen[1]
    assert (response, sample) == ("abc", "s") and set(facts) == set(FACTS)
    assert facts == {
        "task": "t",
        "canvas": (6, 4),
        "frames": ((0,),),
        "tokens": 3,
        "cut": False,
        "second": None,
    }


def test_a_function_gets_no_fact_that_it_does_not_name(functions):
    first, second = rewarded("some", "abcde", "")
    assert first == {"long": 0.5, "whole": 1.0, "total": 1.5}
    assert second == {"long": 0.0, "whole": 0.0, "total": 0.0}


def test_a_total_of_its_own_is_what_is_learned_from(functions):
    assert rewarded("weighed", "a") == [{"near": 1.0, "far": 5.0, "total": 0.25}]


def test_a_rollout_to_which_nothing_applies_counts_in_nothing(functions):
    first, second, third = rewards = rewarded("sometimes", "ab", "", "abcd")
    assert (first["total"], third["total"]) == (2.0, 4.0) and math.isnan(second["total"])
    numbers = numbers_of([group("ab", "", "abcd")], [rewards])
    found = summary_of({**numbers, "prompts/mean_length": [1.0] * 3}, [0.0] * 3)
    assert (found["reward"], found["reward/max"], found["rewards/long"]) == (3.0, 4.0, 3.0)
    assert found["reward_std"] == pytest.approx(math.sqrt(2))
    assert found["frac_reward_zero_std"] == 0.0
    alone = numbers_of([group("ab", "")], [rewards[:2]])
    assert alone["frac_reward_zero_std"] == [1.0], "one rollout has nobody to be compared with"


@pytest.mark.parametrize("scale", ["group", "batch", None])
def test_advantages_without_some_rewards_are_trls(scale):
    torch = pytest.importorskip("torch")
    from harness.models.backends.torchvision_cpu import ensure_torchvision

    ensure_torchvision()
    trl = pytest.importorskip("trl.trainer.utils")
    from harness.models.learning.loss import advantages

    nan = math.nan
    rewards = torch.tensor([1.0, nan, 3.0, 3.5, nan, nan, nan, 2.0, 1.0, 2.0, 2.0, 7.0])
    grouped = rewards.view(3, 4)
    centred = grouped - grouped.nanmean(dim=1, keepdim=True)
    if scale is not None:
        std = trl.nanstd(rewards) if scale == "batch" else trl.nanstd(grouped, 1, keepdim=True)
        centred = centred / (std + 1e-4)
    found = advantages(rewards, 4, scale_rewards=scale)
    assert torch.allclose(found, centred.nan_to_num(0.0).view(-1), atol=1e-6)
    assert (found[4:8] == 0).all() and found[1] == 0 and found.isfinite().all()


def test_any_method_takes_a_function_and_keeps_its_own_as_the_default(functions):
    method = plugins.build("trainers", parse("visionreasoner(reward=everything)"))
    assert method.describe()["reward"] == "everything"
    assert method.rewarded.reward(group("abc")) == [{"everything": 3, "total": 3}]
    again = replace(method.rewarded, name="other").rewarded
    assert again.reward(group("abc")) == method.rewarded.reward(group("abc"))
    assert plugins.build("trainers", parse("visionreasoner")).describe()["reward"] == "method"


@pytest.mark.parametrize(
    ("name", "fault", "said"),
    [
        ("somethimes", UnknownPlugin, "sometimes"),
        ("number", ModelError, "a function .*found 7"),
        ("nothing", ModelError, "nothing.* too many positional"),
        ("unknown", ModelError, "colour"),
        ("later", ModelError, "async|later"),
        ("method", UsageError, "reward=NAME"),
    ],
)
def test_what_cannot_be_called_is_refused_before_anything_is_done(functions, name, fault, said):
    with pytest.raises(fault, match=said):
        grpo(reward=name)


def test_facts_of_an_environment_are_known_when_it_has_run(functions):
    with pytest.raises(ModelError, match="code"):
        grpo(reward="note")
    method = GrpoTrainer(
        name="m",
        settings=Settings(reward="note"),
        reward=lambda group: [],
        environment=lambda query: None,
    )
    found = method.rewarded.reward(group("a", facts={"code": 3}))
    assert found == [{"note": 3, "total": 3}]


def test_a_method_with_a_second_pass_makes_it_for_a_function_too(functions, tiny_qwen):
    """The method's own reward decides whether there is one, and the function sees its text."""
    method = plugins.build("trainers", parse("dr2seg(reward=everything)"))
    model = plugins.build("models", parse(f"dr2seg(checkpoint={tiny_qwen})"))
    bound = method.bound(method.with_prompt(model)).rewarded
    assert bound.second is not None
    both = replace(group("ab"), seconds=(Rollout(text="again", tokens=1),))
    assert bound.reward(both) == [{"everything": 2, "total": 2}]
    import plain_functions

    assert plain_functions.seen[-1][2]["second"] == "again"


def test_a_part_that_is_not_a_number_is_named(functions):
    with pytest.raises(ModelError, match="words='many'"):
        rewarded("wrong", "a")

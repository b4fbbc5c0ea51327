"""Groups to rewards: what is checked, logged and kept, without a network."""

import numpy as np
import pytest

from harness import media
from harness.errors import MissingDependency, ModelError, UsageError
from harness.model import ChatRequest
from harness.trainer import Curve, TrainingRun
from harness.trainers.grpo.examples import Example
from harness.trainers.grpo.loggers import loggers
from harness.trainers.grpo.scoring import Scoring, numbers_of, uniform
from harness.trainers.grpo.values import Group, Rollout
from harness.types import Answer, AnswerForm, Query, Sample, Target


def example(name):
    shown = media.pixels([np.zeros((4, 4, 3), dtype=np.uint8)], times=[0.0], is_video=False, id="x")
    query = Query(id=name, text="?", media=(shown,), forms=(AnswerForm.MASK,))
    sample = Sample(id=name, query=query, target=Target(answer=Answer(no_target=True)))
    return Example("t", sample, ChatRequest(key=name, text="?", media=(shown,)), (4, 4))


def rollout(text):
    return Rollout(text=text, tokens=len(text))


TEXTS = [["<think>a b</think>", "bb"], ["", ""]]
KEYS = [["a#0", "a#1"], ["b#0", "b#1"]]


def lengths(group):
    return [{"length": len(one.text), "total": float(len(one.text))} for one in group.rollouts]


def score(reward=lengths, *, second=None, kept=None, keep=9, random=False, write=None):
    scoring = Scoring(
        name="m", reward=reward, second=second, count_tokens=lambda text: len(text.split()),
        kept=kept, keep=keep, random=random, seed=1,
    )  # fmt: skip
    rollouts = [[rollout(text) for text in texts] for texts in TEXTS]
    return scoring([example("a"), example("b")], rollouts, KEYS, step=3,
                   write=write or (lambda requests, keys: []))  # fmt: skip


def test_terms_are_kept_by_name_and_totals_in_order():
    scored = score()
    assert scored.totals == [18, 2, 0, 0]
    assert scored.numbers == {
        "frac_groups_zero_variance": [0, 1], "frac_groups_all_zero": [0, 1],
        "think_length": [2, 0, 0, 0], "rewards/length": [18, 2, 0, 0],
        "rewards/total": [18, 2, 0, 0],
    }  # fmt: skip


def broken(group):
    raise KeyError("bbox")


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (broken, r"reward of m, sample a: .*KeyError"),
        (lambda group: [{"total": 1.0}], "terms for 2 rollouts"),
        (lambda group: [{"total": float("nan")}] * 2, "finite numbers"),
        (lambda group: [{"total": 1.0, "extra": None}] * 2, "extra"),
        (lambda group: [{"sum": 1.0}] * 2, "'total' among them"),
    ],
)
def test_a_reward_that_fails_is_named(reward, said):
    with pytest.raises(ModelError, match=said):
        score(reward)


def test_a_reward_sees_one_group():
    seen = []

    def reward(group):
        seen.append((group.sample.id, [one.text for one in group.rollouts], group.canvas))
        return lengths(group)

    score(reward)
    assert seen == [("a", TEXTS[0], (4, 4)), ("b", TEXTS[1], (4, 4))]


def test_second_requests_are_written_together_and_given_to_their_rollouts():
    calls = []

    def write(requests, keys):
        calls.append(list(keys))
        return [rollout(f"{request.text}!") for request in requests]

    def second(sample, one):
        return ChatRequest(key="k", text=f"{sample.id}{one.text}")

    seen = []

    def reward(group):
        seen.extend(after.text for after in group.seconds)
        return lengths(group)

    scored = score(reward, second=second, write=write)
    assert calls == [[f"{key}/second" for keys in KEYS for key in keys]]
    assert seen == [f"{name}{text}!" for name, texts in zip("ab", TEXTS, strict=True)
                    for text in texts]  # fmt: skip
    assert scored.numbers["second_length"] == [len(text) for text in seen]
    with pytest.raises(ModelError, match="second pass of m"):
        score(second=lambda sample, one: 1 / 0, write=write)


def test_some_rollouts_are_kept_with_their_terms(tmp_path):
    kept = Curve(tmp_path / "rollouts.jsonl")
    score(kept=kept, keep=1)
    rows = kept.read()
    assert [(row["step"], row["sample"], row["rollout"]) for row in rows] == [
        (3, "a", 0), (3, "a", 1),
    ]  # fmt: skip
    assert rows[0]["terms"] == {"length": 18, "total": 18}
    assert (rows[1]["text"], rows[1]["tokens"]) == ("bb", 2)
    score(kept=kept, keep=0)
    assert kept.read() == rows


def test_a_control_learns_from_numbers_that_depend_on_the_key_alone():
    plain, control = score(), score(random=True)
    assert control.numbers["rewards/method_total"] == plain.totals
    assert control.totals == [uniform(1, key) for keys in KEYS for key in keys]
    assert len(set(control.totals)) == 4
    assert all(0 <= one < 1 for one in control.totals)
    many = [uniform(0, str(number)) for number in range(2000)]
    assert abs(sum(many) / 2000 - 0.5) < 0.03


def test_a_group_that_never_got_a_second_answer_has_no_length_of_one():
    group = Group(sample=example("a").sample, rollouts=(rollout("x"),), seconds=(None,),
                  canvas=(4, 4), count_tokens=len)  # fmt: skip
    assert "second_length" not in numbers_of([group], [[{"total": 1.0}]])


def test_loggers_are_named_and_told(tmp_path, monkeypatch):
    run = TrainingRun(out=tmp_path)
    assert loggers(None, run, {}) == loggers("none", run, {}) == []
    with pytest.raises(UsageError, match="tensorboard, wandb, trackio"):
        loggers("tensorbord", run, {})
    from harness.trainers.grpo import loggers as module

    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert loggers("auto", run, {}) == []
    with pytest.raises(MissingDependency, match="wandb"):
        loggers("wandb", run, {})
    told = []
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    made = {**module.KINDS, "wandb": lambda out, settings: lambda step, numbers: told.append(step)}
    monkeypatch.setattr(module, "KINDS", made)
    for logger in loggers("wandb", run, {}):
        logger(4, {"loss": 1.0})
    assert told == [4]
    assert loggers("wandb", TrainingRun(out=tmp_path, main=False), {}) == []

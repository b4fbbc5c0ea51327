"""Rewards of episodes: the protocol's bits, what a headline becomes, and methods' own."""

import json
import math
from dataclasses import replace

import pytest

from harness import plugins
from harness.cli.main import main
from harness.environments.rewards import MethodReward, headline_over_units
from harness.environments.session import EnvironmentSettings, open_environment
from harness.errors import UsageError
from harness.record import Run
from harness.rehearsal.responses import draw
from harness.rehearsal.server import asked_of
from harness.run.verify import perfect
from harness.scores import value_of
from harness.trainers.grpo.examples import example_of
from harness.trainers.grpo.method import TOTAL, Group, Rollout

PARTS = "segmenter=box,propagator=still"
LIMITS = "coordinates=pixels,factor=28,min_pixels=3136,max_pixels=12845056"
MODEL = f"qwen_vl(backend=openai({LIMITS}),{PARTS})"
READER = f"qwen_vl(backend=stored,{PARTS})"
TASKS = (
    *("reason_seg", "mevis", "coco_detection", "rvtbench_grounding", "where2place", "counting"),
    *("mmsi_bench", "vsi_bench", "charades_sta", "rvtbench_vqa", "ref_davis17", "revos", "saco"),
)


def opened(task, data, model=MODEL, **given):
    return open_environment(EnvironmentSettings(task=task, data=str(data), model=model, **given))


def responses(environment):
    """A response to each sample in turn: right, drawn, and one that answers nothing."""
    samples = [sample for unit in environment.units.values() for sample in unit]
    said = {}
    for place, sample in enumerate(samples):
        (request,) = environment.model.requests(sample.query)
        if place % 3 == 0:
            (said[sample.id],) = environment.model.write(sample.query, perfect(sample).answer)
        elif place % 3 == 1:
            asked = asked_of(environment.fields(request, "policy"))
            said[sample.id] = draw(asked, seed=place).text
        else:
            said[sample.id] = "I see nothing."
    return said


@pytest.mark.parametrize("task", TASKS)
def test_rewards_are_the_bits_of_harness_score(task, shapes, tmp_path, capsys):
    environment = opened(task, shapes)
    said = responses(environment)
    file = tmp_path / "said.jsonl"
    file.write_text("".join(f"{json.dumps({'id': k, 'response': v})}\n" for k, v in said.items()))
    options = ["--tasks", task, "--data", str(shapes), "--predictions", str(file)]
    assert main(["score", *options, "--model", READER, "--out", str(tmp_path / "runs")]) == 0
    (results,) = (tmp_path / "runs").rglob("results.json")
    metrics, rewards = environment.task.protocol.metrics, set()
    for recorded in Run.open(results.parent).units():
        texts = [[said[name]] for name in recorded.samples]
        reward, numbers = environment.score(recorded.unit, environment.read(recorded.unit, texts))
        names = [metric.name for metric in metrics]
        values = {name: value_of(metrics, [recorded], name) for name in names}
        assert numbers == {name: value for name, value in values.items() if value is not None}
        counted = [numbers[name] for name in environment.reward.metrics if name in numbers]
        assert reward == (sum(counted) / len(counted) if counted else 0.0)
        rewards.add(reward)
    assert len(rewards) > 1


@pytest.mark.parametrize(
    ("task", "metrics"),
    [
        ("reason_seg", ("gIoU",)),
        ("mevis", ("J&F",)),
        # J&F of all is a mean of two kinds of expressions, and an expression is of one of them.
        ("revos", ("J referring", "J reasoning", "F referring", "F reasoning")),
        # The other factor of cgF1 is a correlation, which one image does not have.
        ("saco", ("pmF1",)),
    ],
)
def test_a_headline_that_tells_nothing_of_a_unit_gives_way_to_its_parts(task, metrics, shapes):
    assert opened(task, shapes).reward.metrics == metrics


def test_it_does_not_pay_to_leave_an_answer_out(shapes):
    environment = opened("reason_vos", shapes)  # whose official scorer leaves such a sample out
    unit = next(iter(environment.units))
    assert environment.score(unit, environment.read(unit, [])) == (0.0, {})
    assert environment.score(unit, [perfect(s) for s in environment.units[unit]])[0] == 1.0


def test_a_headline_that_never_tells_is_refused(shapes):
    task = opened("saco", shapes).task
    blind = replace(task, protocol=replace(task.protocol, headline="IL_MCC"))
    with pytest.raises(UsageError, match="reward="):
        headline_over_units(blind, opened("saco", shapes).units.values())


def test_every_metric_that_is_better_higher_can_be_named(shapes):
    unit = next(iter(opened("reason_seg", shapes).units))
    for name in ("gIoU", "cIoU", "P@0.5"):
        environment = opened("reason_seg", shapes, reward=name)
        answers = [perfect(sample) for sample in environment.units[unit]]
        reward, numbers = environment.score(unit, answers)
        assert reward == numbers[name] and environment.reward_name == name


def methods():
    """Trainers with a reward for `reason_seg` or a question in words, by name."""
    return {"visionreasoner": "reason_seg", "seg_zero": "reason_seg", "video_str": "vsi_bench"}


@pytest.mark.parametrize("name", methods())
def test_a_methods_reward_is_that_of_its_training(name, shapes):
    environment = opened(methods()[name], shapes, reward=name)
    assert isinstance(environment.reward, MethodReward)
    method, totals = environment.reward.method, set()
    for unit in list(environment.units)[:6]:
        ((sample,),) = (environment.units[unit],)
        right = environment.model.write(sample.query, perfect(sample).answer)[0]
        texts = (right, right.replace("1", "3"), "I see nothing.")
        example = example_of(method, environment.model, environment.task.name, sample)
        count = environment.chat.count_tokens
        group = Group(
            sample=sample,
            task=environment.task.name,
            rollouts=tuple(Rollout(text=text, tokens=count(text)) for text in texts),
            canvas=example.canvas,
            count_tokens=count,
            frames=example.frames,
        )
        for text, own in zip(texts, method.reward(group), strict=True):
            reward, parts = environment.score(unit, environment.read(unit, [[text]]))
            assert reward == own[TOTAL]
            assert parts == {part: own[part] for part in own if part != TOTAL}
            totals.add(reward)
    assert len(totals) > 1 and all(map(math.isfinite, totals))


@pytest.mark.parametrize("name", ["dr2seg", "video_r1", "spacer", "vr_ttrl", "sft"])
def test_rewards_of_whole_groups_and_second_responses_are_refused(name, shapes):
    assert name in plugins.installed_plugins("trainers")
    with pytest.raises(UsageError, match="a whole group"):
        opened("reason_seg", shapes, reward=name)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reward": "gIuO"}, "gIoU"),
        ({"reward": "dt_r1"}, "as the model"),
        ({"model": "saliency"}, "such as qwen_vl"),
        ({"model": "qwen_vl(backend=stored)"}, "another backend"),
        ({"model": "qwen_vl,pocket"}, "one model"),
    ],
)
def test_what_cannot_be_an_environment_is_refused(given, message, shapes):
    with pytest.raises(UsageError, match=message):
        opened("reason_seg", shapes, **given)


def test_an_episode_without_a_response_is_worth_nothing_to_a_method(shapes):
    environment = opened("reason_seg", shapes, reward="visionreasoner")
    name = next(iter(environment.units))
    assert environment.score(name, environment.read(name, [[""]]))[0] > 0  # it repeats nothing
    assert environment.score(name, environment.read(name, [])) == (0.0, {})

"""Groups to rewards: what is checked, logged and kept, without a network."""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from harness import media
from harness.errors import MissingDependency, ModelError, ParseError, UsageError
from harness.models.grammar import Item, ParseResult, split_frame
from harness.trainer import Curve, TrainingRun
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.grpo.rewards import (
    log_rollouts,
    numbers_of,
    places_of,
    repetition,
    reward_group,
)
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.loggers import check_loggers, loggers
from harness.types import Answer, AnswerForm, Box, Point, Query, Sample, Target


def sample_of(name):
    shown = media.pixels([np.zeros((4, 4, 3), dtype=np.uint8)], times=[0.0], is_video=False, id="x")
    query = Query(id=name, text="?", media=(shown,), forms=(AnswerForm.MASK,))
    return Sample(id=name, query=query, target=Target(answer=Answer(no_target=True)))


def rollout(text):
    return Rollout(text=text, tokens=len(text))


TEXTS = [["<think>a b</think>", "bb"], ["", ""]]
KEYS = [["a#0", "a#1"], ["b#0", "b#1"]]


def lengths(group):
    return [{"length": len(one.text), "total": float(len(one.text))} for one in group.rollouts]


def group_of(name, texts, **more):
    return Group(
        sample=sample_of(name),
        task="t",
        rollouts=tuple(rollout(text) for text in texts),
        canvas=(4, 4),
        count_tokens=lambda text: len(text.split()),
        **more,
    )


GROUPS = [group_of("a", TEXTS[0]), group_of("b", TEXTS[1])]


def score(reward=lengths, source="method"):
    method = GrpoTrainer(name="m", settings=Settings(reward=source), reward=reward)
    return [
        reward_group(method, group, keys, seed=1) for group, keys in zip(GROUPS, KEYS, strict=True)
    ]


def totals(rewards):
    return [one["total"] for several in rewards for one in several]


def test_components_are_kept_by_name_and_totals_in_order():
    rewards = score()
    assert totals(rewards) == [18, 2, 0, 0]
    assert numbers_of(GROUPS, rewards) == {
        "frac_reward_zero_std": [0, 1],
        "frac_groups_all_zero": [0, 1],
        "completions/mean_length": [18, 2, 0, 0],
        "completions/clipped_ratio": [0, 0, 0, 0],
        "think_length": [2, 0, 0, 0],
        "rewards/length": [18, 2, 0, 0],
        "rewards/total": [18, 2, 0, 0],
    }


def broken(group):
    raise KeyError("bbox")


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (broken, "m, sample a: .*KeyError: 'bbox'"),
        (lambda group: [{"total": 1.0}], "2 rewards, found 1 of them"),
        (lambda group: [{"total": float("nan")}] * 2, "total=nan"),
        (lambda group: [{"total": 1.0, "extra": "many"}] * 2, "extra='many'"),
        (lambda group: [{"total": 1e308}] * 2, "total=1e\\+308"),
        (lambda group: [{"sum": 1.0}] * 2, "'total' .*'sum'"),
        (lambda group: [1.0, 2.0], "a dict .*found 1.0"),
    ],
)
def test_a_reward_that_fails_is_named(reward, said):
    with pytest.raises(ModelError, match=said):
        score(reward)


def test_tensors_of_one_element_are_numbers_and_none_does_not_apply():
    torch = pytest.importorskip("torch")
    given = {"total": torch.tensor(0.5), "hit": torch.tensor([1.0]), "text": None}
    assert totals(score(lambda group: [given] * 2)) == [0.5] * 4
    assert set(score(lambda group: [given] * 2)[0][0]) == {"total", "hit"}


def test_a_group_without_rewards_teaches_nothing_but_did_not_earn_zero():
    numbers = numbers_of(GROUPS, score(lambda group: [{"total": None}] * 2))
    assert numbers["frac_reward_zero_std"] == [1, 1]
    assert numbers["frac_groups_all_zero"] == [0, 0]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.bool])
@pytest.mark.parametrize("source", ["method", "random"])
def test_numbers_of_numpy_are_numbers(kind, source):
    rewards = score(lambda group: [{"total": kind(1), "hit": kind(0)}] * 2, source)
    values = [value for several in rewards for one in several for value in one.values()]
    assert {type(value) for value in values} == {float}
    assert {one["hit"] for several in rewards for one in several} == {0.0}


def test_a_reward_sees_one_group():
    seen = []

    def reward(group):
        seen.append((group.sample.id, [one.text for one in group.rollouts], group.canvas))
        return lengths(group)

    score(reward)
    assert seen == [("a", TEXTS[0], (4, 4)), ("b", TEXTS[1], (4, 4))]


def keep(file, groups):
    gains = [0.7, -0.7, 0.2, -0.2]
    log_rollouts(file, 3, GROUPS[:groups], score(), gains, Boxes().parse)


def test_some_rollouts_are_kept_with_their_components_and_advantages(tmp_path):
    kept = Curve(tmp_path / "rollouts.jsonl")
    keep(kept, 1)
    rows = kept.read()
    assert [(row["step"], row["sample"], row["rollout"]) for row in rows] == [
        (3, "a", 0),
        (3, "a", 1),
    ]
    assert rows[0]["components"] == {"length": 18, "total": 18}
    assert (rows[1]["text"], rows[1]["tokens"]) == ("bb", 2)
    assert [row["advantage"] for row in rows] == [0.7, -0.7] and rows[0]["task"] == "t"
    keep(kept, 0)
    assert kept.read() == rows
    keep(kept, 2)
    both = kept.read()[2:]
    assert [row["text"] for row in both] == [text for texts in TEXTS for text in texts]
    assert [row["advantage"] for row in both] == [0.7, -0.7, 0.2, -0.2]


def test_what_an_environment_noted_and_a_second_pass_said_is_kept(tmp_path):
    kept = Curve(tmp_path / "rollouts.jsonl")
    one = Rollout(text="x", tokens=1, facts={"exit_code": 2})
    group = Group(
        sample=sample_of("a"),
        rollouts=(one,),
        seconds=(rollout("yy"),),
        canvas=(4, 4),
        count_tokens=len,
    )
    log_rollouts(kept, 1, [group], [[{"total": 1.0}]], [0.0], Boxes().parse)
    (row,) = kept.read()
    assert (row["facts"], row["second"]) == ({"exit_code": 2}, "yy")
    assert numbers_of([group], [[{"total": 1.0}]])["second_length"] == [2]


def placed(response, *, canvas=(100, 50), frames=((0,),), length=1, forms=(AnswerForm.MASK,)):
    """The places of a response to a question about a 200 × 100 image, or a video of such frames."""
    pixels = [np.zeros((100, 200, 3), dtype=np.uint8)] * length
    shown = media.pixels(pixels, times=range(length), is_video=length > 1, id="x")
    query = Query(id="q", text="?", media=(shown,), forms=forms)
    sample = Sample(id="q", query=query, target=Target(answer=Answer(no_target=True)))
    group = Group(sample=sample, rollouts=(), canvas=canvas, count_tokens=len, frames=frames)
    return places_of(Boxes().parse, group, response)


class Boxes:
    """A grammar of four numbers, after a frame where one is named."""

    def parse(self, response):
        frame, rest = split_frame(response)
        if rest.strip() == "raise":
            raise ParseError("response", expected="four numbers", found="none")
        if not rest.strip() or not rest.strip()[0].isdigit():
            return ParseResult(error="no numbers")
        left, top, right, bottom = map(float, rest.split())
        item = Item(Box(left, top, right, bottom), Point(left, top))
        return ParseResult(items=(item,), frame=frame)


def test_places_are_kept_in_pixels_of_the_original_image():
    assert placed("10 5 50 25") == {
        "frame": 0,
        "boxes": [[20, 10, 100, 50]],
        "points": [[20, 10]],
    }
    assert placed("10 5 50 25", canvas=(1000, 1000))["boxes"] == [[2, 1, 10, 3]]


def test_the_frame_of_places_is_the_one_that_was_shown_alone_or_is_named():
    assert placed("<frame>2</frame>1 1 2 2", frames=((5,),), length=8)["frame"] == 5
    assert placed("<frame>2</frame>1 1 2 2", frames=((0, 2, 5),), length=8)["frame"] == 2
    assert placed("<frame>9</frame>1 1 2 2", frames=((0, 2, 5),), length=8)["frame"] == 4
    assert placed("1 1 2 2", frames=((0, 2, 5),), length=8)["frame"] == 4


@pytest.mark.parametrize(("response", "why"), [("", "no numbers"), ("raise", "four numbers")])
def test_a_response_outside_the_grammar_is_kept_with_the_reason(response, why):
    kept = placed(response)
    assert kept["boxes"] == kept["points"] == [] and why in kept["unread"]


def test_words_have_no_places():
    assert placed("7", forms=(AnswerForm.NUMBER,)) == {}


def test_a_control_learns_from_numbers_that_depend_on_the_key_alone():
    plain, control = score(), score(source="random")
    logged = numbers_of(GROUPS, control)
    assert logged["rewards/method_total"] == totals(plain)
    assert totals(control) == totals(score(lambda group: [{"total": 9.0}] * 2, "random"))
    assert len(set(totals(control))) == 4
    assert all(0 <= one < 1 for one in totals(control))
    method = GrpoTrainer(name="m", settings=Settings(reward="random"), reward=lengths)
    group = group_of("a", ["x"] * 2000)
    many = reward_group(method, group, list(map(str, range(2000))), seed=0)
    assert abs(sum(totals([many])) / 2000 - 0.5) < 0.03


def test_a_group_that_never_got_a_second_answer_has_no_length_of_one():
    group = Group(sample=sample_of("a"), rollouts=(rollout("x"),), canvas=(4, 4), count_tokens=len)
    assert "second_length" not in numbers_of([group], [[{"total": 1.0}]])


def test_loggers_are_named_and_told(tmp_path, monkeypatch):
    run = TrainingRun(out=tmp_path)
    assert loggers(None, run, 0, {}) == loggers("none", run, 0, {}) == []
    with pytest.raises(UsageError, match=r"report_to=tensorbord: .*tensorboard, wandb"):
        loggers("tensorbord", run, 0, {})
    from harness.trainers import loggers as module

    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert loggers("auto", run, 0, {}) == []
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingDependency, match="wandb"):
        loggers("tensorboard+wandb", run, 0, {})
    assert loggers("wandb", TrainingRun(out=tmp_path, main=False), 0, {}) == []


@pytest.mark.parametrize(
    ("mode", "refused"),
    [("online", r"report_to=wandb: .*no key.*WANDB_API_KEY"), ("offline", None)],
)
def test_weights_and_biases_without_a_key_is_refused_where_it_needs_one(monkeypatch, mode, refused):
    """`wandb.login` raises where there is neither a key nor a terminal to ask on."""

    def login(verify):
        if mode == "online":
            raise RuntimeError("no key")
        return False

    stub(monkeypatch, "wandb", login=login)
    if refused is None:
        check_loggers("tensorboard+wandb" if find_spec("tensorboard") else "wandb")
        return
    with pytest.raises(UsageError, match=refused):
        check_loggers("wandb")


def test_loggers_are_checked_by_name_and_package(monkeypatch):
    for nothing in (None, "none", "auto"):
        check_loggers(nothing)
    with pytest.raises(UsageError, match="tensorbord"):
        check_loggers("tensorbord")
    for name in ("tensorboard", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingDependency, match=name):
            check_loggers(name)


def test_repetition_is_the_share_of_what_was_said_before():
    assert repetition([]) == repetition(range(7)) == repetition(range(60)) == 0
    assert repetition([1, 2] * 10) == pytest.approx(11 / 13)
    box = [[*range(20, 27), number] for number in range(50, 55)]
    assert repetition([token for one in box for token in one]) == 0


def stub(monkeypatch, name, **content):
    pytest.importorskip("accelerate").PartialState()
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    for key, value in content.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_weights_and_biases_keeps_a_training_s_run_in_its_folder(tmp_path, monkeypatch):
    """`resume=auto` with `dir`: it keeps the run's id there."""
    started, info = [], []
    run = SimpleNamespace(log=lambda numbers, step: info.append((step, numbers)))
    stub(monkeypatch, "wandb", init=lambda **given: started.append(given) or run)
    for out, resume in (("a", False), ("a", True), ("b", False)):
        (log,) = loggers("wandb", TrainingRun(out=tmp_path / out, resume=resume), 2, {"beta": 1})
        log.log({"loss": 0.5}, step=3)
    assert info == [(3, {"loss": 0.5})] * 3
    assert (
        [Path(one["dir"]).name for one in started]
        == [one["name"] for one in started]
        == list("aab")
    )
    assert all(one["resume"] == "auto" and one["config"] == {"beta": 1} for one in started)


def test_tensorboard_forgets_the_steps_that_a_resumed_training_makes_again(tmp_path, monkeypatch):
    made = []

    class SummaryWriter:
        def __init__(self, folder, purge_step=None):
            made.append((Path(folder).name, purge_step))

    stub(monkeypatch, "tensorboard")
    fake = stub(monkeypatch, "torch.utils.tensorboard", SummaryWriter=SummaryWriter)
    monkeypatch.setattr(sys.modules["torch"].utils, "tensorboard", fake, raising=False)
    for resume, done in ((False, 0), (True, 0), (True, 40)):
        loggers("tensorboard", TrainingRun(out=tmp_path, resume=resume), done, {})
    assert made == [("tensorboard", None), ("tensorboard", 1), ("tensorboard", 41)]

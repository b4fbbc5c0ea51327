"""Groups that teach nothing: other prompts take their place, and theirs are skipped later."""

import os
import signal
from itertools import islice
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("trl")

from harness import plugins
from harness.errors import StoreError, UsageError
from harness.run.train import TrainingOptions, train
from harness.spec import parse
from harness.trainers.grpo.prompts import PromptOrder
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.learner import sample_order
from harness.trainers.state import newest_state


def order(prompts, **fields):
    examples = [SimpleNamespace(name=f"prompt {row}") for row in range(prompts)]
    return PromptOrder(examples=examples, **{"seed": 5, **fields})


def names(taken):
    return [example.name for example in taken]


@given(st.integers(1, 7), st.lists(st.integers(0, 9), max_size=5))
def test_without_dead_groups_the_order_is_that_of_every_training(prompts, rounds):
    one = order(prompts, revisit=0.5)
    taken = [name for number in rounds for name in names(one.take(number))]
    assert taken == [f"prompt {row}" for row in islice(sample_order(5, prompts), sum(rounds))]
    assert (one.drawn, one.skipped) == (sum(rounds), 0)


@given(st.lists(st.integers(0, 4), max_size=8), st.data())
def test_an_order_that_was_saved_at_any_time_goes_on_as_it_would_have(
    tmp_path_factory, rounds, data
):
    cut = data.draw(st.integers(0, len(rounds)))
    dead = {f"prompt {row}": data.draw(st.integers(1, 3)) for row in range(4)}
    whole, first, second = (order(6, revisit=0.5) for _ in range(3))
    for one in (whole, first):
        one.dead = dict(dead)
    expected = [names(whole.take(number)) for number in rounds]
    found = [names(first.take(number)) for number in rounds[:cut]]
    folder = tmp_path_factory.mktemp("state")
    first.save(folder)
    second.load(folder)
    assert found + [names(second.take(number)) for number in rounds[cut:]] == expected


def test_a_prompt_is_shown_the_less_often_the_more_dead_groups_it_had_in_a_row():
    one = order(3, revisit=0.5)
    one.record([("prompt 0", True)] * 1 + [("prompt 1", True)] * 3)
    taken = names(one.take(4000))
    shares = [taken.count(f"prompt {row}") / taken.count("prompt 2") for row in range(2)]
    assert shares == pytest.approx([0.5, 0.125], abs=0.04)
    assert one.drawn == len(taken) + one.skipped
    one.record([("prompt 0", False), ("prompt 1", False)])
    assert one.dead == {} and len(set(names(one.take(3)))) > 0
    always = order(3)
    always.record([("prompt 0", True)] * 9)
    assert set(names(always.take(3))) == {"prompt 0", "prompt 1", "prompt 2"}


def test_prompts_are_shown_even_if_all_of_them_are_dead():
    one = order(4, revisit=1e-6)
    one.record([(f"prompt {row}", True) for row in range(4)] * 3)
    assert len(one.take(3)) == 3 and one.skipped == 12


@pytest.mark.parametrize(
    "text", ["", "{}", '{"drawn": 1, "dead": 3}', '{"drawn": "x", "dead": {}}']
)
def test_a_damaged_state_is_a_store_error(tmp_path, text):
    (tmp_path / "prompts.json").write_text(text)
    with pytest.raises(StoreError, match=r"prompts\.json"):
        order(2).load(tmp_path)


def test_settings_of_dynamic_sampling_are_refused_without_it():
    with pytest.raises(UsageError, match="dynamic_sampling"):
        plugins.build("trainers", parse("visionreasoner(max_num_gen_batches=3)"))


FEW = {
    "num_generations": 4,
    "generation_batch_size": 8,
    "per_device_train_batch_size": 4,
    "max_completion_length": 6,
    "max_steps": 4,
    "save_steps": 1,
    "learning_rate": 0.003,
    "report_to": None,
}


class AliveOne:
    """Rewards by which one sample's groups alone differ."""

    def __init__(self, alive):
        self.alive, self.seen = alive, []

    def __call__(self, group):
        self.seen.append(group.sample.id)
        differs = group.sample.id == self.alive
        return [{"total": float(place) * differs} for place in range(len(group.rollouts))]


@pytest.fixture
def begin(tiny_qwen, examples, tmp_path, told):
    task = plugins.build("tasks", parse("reason_seg"), examples)
    alive = sorted(sample.id for sample in task.samples())[0]

    def begin(name, **options):
        reward = AliveOne(alive)
        settings = Settings(**{**FEW, "dynamic_sampling": True, **options})
        trained = train(
            GrpoTrainer(name="alive", settings=settings, reward=reward),
            [task],
            parse(f"qwen_vl(checkpoint={tiny_qwen},prompt=locate,max_new_tokens=6)"),
            tmp_path / name,
            TrainingOptions(seed=3, progress=told, keep_state=True),
        )
        return trained, reward

    return begin


def test_dead_groups_are_replaced_as_often_as_is_allowed(begin):
    trained, reward = begin("out", revisit_probability=1, max_num_gen_batches=3, max_steps=3)
    rows = trained.curve.read()
    written = [8 // 4 + int(row["extra_prompts"]) for row in rows]
    assert sum(written) == len(reward.seen)
    for row, groups in zip(rows, written, strict=True):
        here, reward.seen = reward.seen[:groups], reward.seen[groups:]
        alive = sum(name == reward.alive for name in here)
        assert 2 <= groups <= 6 and (alive >= 2 or groups > 2)
        assert row["frac_reward_zero_std"] == pytest.approx(1 - alive / groups)
        assert row["skipped_prompts"] == 0
        assert 0 < row["dead_tokens"] < row["step_tokens"] or alive in (0, groups)
    assert rows[-1]["epoch"] == pytest.approx(sum(written) / 3)


def test_prompts_of_dead_groups_are_skipped(begin):
    _, always = begin("always", revisit_probability=1, max_num_gen_batches=1, max_steps=12)
    trained, seldom = begin("seldom", revisit_probability=0.1, max_num_gen_batches=1, max_steps=12)
    assert len(always.seen) == len(seldom.seen) == 24, "as much was written"
    assert always.seen.count(always.alive) == 8
    assert seldom.seen.count(seldom.alive) > 16
    rows = trained.curve.read()
    assert sum(row["skipped_prompts"] for row in rows) > 12
    assert rows[-1]["extra_prompts"] == 0


def test_a_training_that_died_goes_on_with_the_same_prompts(begin, told, died):
    whole, _ = begin("whole")
    assert any(row["skipped_prompts"] for row in whole.curve.read()), "or the test is of nothing"
    told.dies_at = 3
    with pytest.raises(died):
        begin("cut")
    told.dies_at = None
    resumed, _ = begin("cut")
    for name in ("curve.jsonl", "rollouts.jsonl", "checkpoint/model.safetensors"):
        assert (whole.folder / name).read_bytes() == (resumed.folder / name).read_bytes(), name
    states = [newest_state(one.folder / "state") / "prompts.json" for one in (whole, resumed)]
    assert states[0].read_bytes() == states[1].read_bytes()


def test_a_signal_while_a_step_is_logged_loses_nothing_of_what_the_next_round_goes_on_from(
    begin, told, monkeypatch
):
    """It comes after the loop has asked for signals, and ends the next round before its prompts."""
    given = {"save_steps": 100, "ema_decay": 0.9}
    whole, _ = begin("whole", **given)
    step = told.step

    def logged(done, numbers):
        step(done, numbers)
        if done == 2 and "loss" in numbers:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(told, "step", logged)
        with pytest.raises(KeyboardInterrupt):
            begin("cut", **given)
    resumed, _ = begin("cut", **given)
    assert any("resumes after step 2" in note for note in told.notes)
    for name in ("curve.jsonl", "rollouts.jsonl", "checkpoint/model.safetensors"):
        assert (whole.folder / name).read_bytes() == (resumed.folder / name).read_bytes(), name

"""A reward that fails ends a training, or costs its sample: `reward_errors`."""

import json
import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness import plugins  # noqa: E402
from harness.errors import (  # noqa: E402
    DataError,
    ModelError,
    ParseError,
    Unavailable,
    UsageError,
)
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.trainers.grpo.method import Group, Rollout  # noqa: E402
from harness.trainers.grpo.reward_errors import FailedRewards, reward_or_drop  # noqa: E402
from harness.trainers.grpo.rewards import numbers_of, summary_of  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402
from harness.trainers.state import newest_state  # noqa: E402

ensure_torchvision()

FEW = {
    "num_generations": 4,
    "generation_batch_size": 8,
    "per_device_train_batch_size": 8,
    "max_completion_length": 6,
    "max_steps": 3,
    "save_steps": 10,
    "learning_rate": 0.003,
    "report_to": None,
}
"""Two prompts a round, of three samples."""


@pytest.fixture
def task(examples):
    return plugins.build("tasks", parse("reason_seg"), examples)


@pytest.fixture
def bad(task):
    """The sample whose reward fails."""
    return sorted(sample.id for sample in task.samples())[0]


@pytest.fixture
def begin(tiny_qwen, task, tmp_path, told):
    def begin(name, reward, **settings):
        chosen = Settings(**{**FEW, **settings})
        return train(
            GrpoTrainer(name="m", settings=chosen, reward=reward),
            [task],
            parse(f"qwen_vl(checkpoint={tiny_qwen},prompt=locate,max_new_tokens=6)"),
            tmp_path / name,
            TrainingOptions(seed=3, progress=told, keep_state=True),
        )

    return begin


def places(group):
    return [{"place": float(place), "total": float(place)} for place in range(4)]


def failing(bad, fault):
    """Return a reward that fails for one sample, and the samples that it was asked about."""
    seen = []

    def reward(group):
        seen.append(group.sample.id)
        return fault(group) if group.sample.id == bad else places(group)

    return reward, seen


def raises(group):
    raise KeyError("bbox")


def not_finite(group):
    return [*places(group)[1:], {"total": math.nan}]


@pytest.mark.parametrize("fault", [raises, not_finite])
def test_a_reward_that_fails_costs_its_sample_alone(begin, bad, told, fault):
    """As if the sample's rollouts had no reward, to the weights."""
    reward, seen = failing(bad, fault)
    dropped = begin("dropped", reward, reward_errors="drop")
    rounds = [seen[start : start + 2] for start in (0, 2, 4)]
    shares = [several.count(bad) / 2 for several in rounds]
    assert 0 < sum(shares) < 3 and 1 not in shares
    rows = dropped.curve.read()
    assert [row["frac_reward_errors"] for row in rows] == shares
    assert [row["reward"] for row in rows] == [1.5] * 3
    notes = [note for note in told.notes if "reward of 1 of 2 samples failed" in note]
    assert len(notes) == sum(map(bool, shares)) and all(f"sample {bad}" in note for note in notes)

    unrewarded, _ = failing(bad, lambda group: [{"total": None}] * 4)
    without = begin("without", unrewarded)
    file = "model.safetensors"
    assert (dropped.checkpoint / file).read_bytes() == (without.checkpoint / file).read_bytes()
    assert all("frac_reward_errors" not in row for row in without.curve.read())


def test_averages_of_rewards_go_on_without_the_sample(begin, bad):
    reward, _ = failing(bad, raises)
    rows = begin("out", reward, reward_errors="drop", ema_decay=0.9).curve.read()
    assert sum(row["frac_reward_errors"] for row in rows) > 0
    assert all(math.isfinite(row["advantages/max"]) for row in rows)


def test_other_prompts_take_the_place_of_the_sample(begin, bad):
    reward, seen = failing(bad, raises)
    rows = begin("out", reward, reward_errors="drop", dynamic_sampling=True).curve.read()
    assert sum(row["extra_prompts"] for row in rows) == len(seen) - 6 > 0


def test_a_group_whose_reward_failed_does_not_count_as_dead(begin, bad, tmp_path):
    """It says nothing of the prompt: it is neither solved nor hopeless."""
    reward, seen = failing(bad, raises)
    begin("out", reward, reward_errors="drop", dynamic_sampling=True)
    known = json.loads((newest_state(tmp_path / "out" / "state") / "prompts.json").read_text())
    assert seen.count(bad) > 0 and known["dead"] == {}
    equal, _ = failing(bad, lambda group: [{"total": 1.0}] * 4)
    begin("equal", equal, reward_errors="drop", dynamic_sampling=True)
    known = json.loads((newest_state(tmp_path / "equal" / "state") / "prompts.json").read_text())
    assert [name.rpartition(" ")[2] for name in known["dead"]] == [bad]


ONE = {"generation_batch_size": 4, "per_device_train_batch_size": 4, "reward_errors": "drop"}
"""A prompt a round."""


@pytest.mark.parametrize("engine", ["harness", "trl"])
def test_a_prompt_that_fails_does_not_end_rounds_of_one_prompt(begin, bad, engine):
    reward, seen = failing(bad, raises)
    rows = begin("out", reward, engine=engine, **ONE).curve.read()
    shares = [float(name == bad) for name in seen]
    assert len(rows) == 3 and [row["frac_reward_errors"] for row in rows] == shares
    assert shares.count(1.0) == 1


@pytest.mark.parametrize("engine", ["harness", "trl"])
def test_a_reward_that_fails_for_every_prompt_ends_the_training(begin, told, engine):
    """At the sixth prompt: 5 % of 100 may fail. A state is there, also for the mended reward."""
    given = {"engine": engine, "max_steps": 8, "save_steps": 5, **ONE}
    with pytest.raises(ModelError, match=r"(?s)step 6: .*6 of the last 6 .*KeyError.*raise rew"):
        begin("out", raises, **given)
    rows = begin("out", places, **given).curve.read()
    assert any("resumes after step 5" in note for note in told.notes)
    assert [row["frac_reward_errors"] for row in rows] == [1.0] * 5 + [0.0] * 3
    assert rows[-1]["reward"] == 1.5


def test_a_prompt_that_failed_is_no_prompt_of_equal_rewards():
    """It says nothing of what the policy earns; a reward that does not apply does."""
    group = SimpleNamespace(
        rollouts=(Rollout(text="", tokens=1),) * 2, seconds=(), count_tokens=len
    )
    none, equal, unequal = [math.nan] * 2, [1.0, 1.0], [0.0, 1.0]
    rewards = [[{"total": one} for one in totals] for totals in (none, none, equal, unequal)]
    numbers = numbers_of([group] * 4, rewards, ["why", "", "", ""])
    found = summary_of({**numbers, "prompts/mean_length": [1.0] * 8}, [0.0] * 8)
    assert found["frac_reward_zero_std"] == pytest.approx(2 / 3)
    assert found["frac_groups_all_zero"] == 0.0
    assert found["dead_tokens"] == 6, "nothing is learned of a failed prompt either"


def counted(settings, *rounds):
    failed = FailedRewards(Settings(**settings, reward_errors="drop"))
    for number, (wrong, total) in enumerate(rounds):
        faults = ["why"] * wrong + [""] * (total - wrong)
        failed.add(faults, number=number, note=lambda text: None)


MANY = {"num_generations": 2, "generation_batch_size": 256, "per_device_train_batch_size": 2}


@pytest.mark.parametrize(
    ("settings", "rounds", "is_over"),
    [
        ({}, [(1, 1)] * 5, False),
        ({}, [(1, 1)] * 6, True),
        ({}, [(5, 100), (5, 100)], False),
        ({}, [(5, 50), (1, 50)], True),
        ({}, [(5, 50), (0, 50), (1, 50)], False),
        (MANY, [(6, 128)] * 3, False),
        (MANY, [(7, 128)], True),
        ({"reward_error_limit": 0.0}, [(0, 1), (1, 1)], True),
        ({"reward_error_limit": 1.0}, [(1, 1)] * 200, False),
    ],
)
def test_the_share_is_of_the_last_hundred_prompts(settings, rounds, is_over):
    """Of whole rounds; of fewer prompts, it is as if the others had a reward."""
    counted(settings, *rounds[:-1])
    if not is_over:
        counted(settings, *rounds)
        return
    with pytest.raises(ModelError, match=f"step {len(rounds)}"):
        counted(settings, *rounds)


def test_a_training_that_a_reward_has_stopped_goes_on_without_the_sample(begin, bad, told):
    """Byte by byte as if it had been told to before."""
    reward, _ = failing(bad, raises)
    whole = begin("whole", reward, reward_errors="drop", max_steps=6)
    with pytest.raises(ModelError, match=f"sample {bad}"):
        begin("out", reward, max_steps=6)
    resumed = begin("out", reward, reward_errors="drop", max_steps=6)
    assert any("reward_errors" in str(one) for one in resumed.manifest["changed"])
    for name in ("checkpoint/model.safetensors", "rollouts.jsonl"):
        assert (whole.folder / name).read_bytes() == (resumed.folder / name).read_bytes(), name


@pytest.mark.parametrize(
    ("fault", "is_dropped"),
    [
        (DataError, True),
        (ModelError, True),
        (ParseError, True),
        (Unavailable, False),
        (UsageError, False),
    ],
)
def test_what_is_no_fault_of_the_sample_ends_the_training(fault, is_dropped):
    def reward(group):
        raise fault("a part", expected="one", found="none")

    method = GrpoTrainer(name="m", settings=Settings(reward_errors="drop"), reward=reward)
    rollouts = (Rollout(text="", tokens=1),) * 2
    sample = SimpleNamespace(id="a")
    group = Group(sample=sample, rollouts=rollouts, canvas=(1, 1), count_tokens=len)
    if is_dropped:
        rewards, why = reward_or_drop(method, group, ["a", "b"], seed=0)
        assert [math.isnan(one["total"]) for one in rewards] == [True, True] and "a part" in why
    else:
        with pytest.raises(fault):
            reward_or_drop(method, group, ["a", "b"], seed=0)


@pytest.mark.parametrize("engine", ["harness", "trl"])
def test_a_training_in_which_no_rollout_has_a_reward_is_an_error(begin, engine):
    with pytest.raises(ModelError, match="at least one rollout"):
        begin("none", lambda group: [{"total": None}] * len(group.rollouts), engine=engine)

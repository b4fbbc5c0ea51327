"""Training with GRPO on a tiny random network: what is learned from, and that nothing is lost."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import stdev

import pytest

from harness import plugins
from harness.chat import ChatRequest
from harness.errors import DataError, MissingDependency, ModelError, UsageError
from harness.run.train import TrainingOptions, train
from harness.spec import parse
from harness.trainer import Curve

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.trainers import session  # noqa: E402
from harness.trainers.alarms import WINDOW, AlarmStop  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402
from harness.trainers.state import newest_state  # noqa: E402

ensure_torchvision()
pytest.importorskip("peft")

FEW = {
    "num_generations": 4,
    "generation_batch_size": 8,
    "per_device_train_batch_size": 4,
    "max_completion_length": 6,
    "max_steps": 3,
    "save_steps": 2,
    "learning_rate": 0.003,
    "loss_type": "grpo",
    "beta": 0.05,
    "report_to": None,
}


class Letters:
    """Rewards responses for their letters: something that a random network can learn at once."""

    def __init__(self) -> None:
        self.groups = []

    def __call__(self, group):
        self.groups.append(group)
        texts = [rollout.text for rollout in group.rollouts]
        found = [sum(one.isalpha() for one in text) / (len(text) or 1) for text in texts]
        return [
            {"letters": one, "even": float(len(text) % 2), "total": one}
            for one, text in zip(found, texts, strict=True)
        ]


@pytest.fixture
def begin(tiny_qwen, examples, tmp_path, told):
    """Trains on three samples of reason_seg."""

    def begun(name, reward=None, *, method=None, prompt="locate", **options):
        run = {
            name: options.pop(name)
            for name in ("every", "evaluate", "resume", "keep_state")
            if name in options
        }
        parts = {
            name: options.pop(name) for name in ("second", "usable", "request") if name in options
        }
        trainer = method or GrpoTrainer(
            name="letters",
            settings=Settings(**{**FEW, **options}),
            reward=reward or Letters(),
            **parts,
        )
        return train(
            trainer,
            [plugins.build("tasks", parse("reason_seg"), examples)],
            parse(f"qwen_vl(checkpoint={tiny_qwen},prompt={prompt},max_new_tokens=6)"),
            tmp_path / name,
            TrainingOptions(**{"seed": 3, "progress": told, "keep_state": True, **run}),
        )

    return begun


def tensors(folder: Path):
    from safetensors.torch import load_file

    return {
        name: one
        for path in sorted(folder.glob("*.safetensors"))
        for name, one in load_file(path).items()
    }


def same_tensors(one: Path, other: Path) -> bool:
    a, b = tensors(one), tensors(other)
    return bool(a) and set(a) == set(b) and all(torch.equal(a[name], b[name]) for name in a)


def optimiser(training):
    plain = torch.load(newest_state(training.folder / "state") / "optimizer.pt", weights_only=True)
    return {
        f"{index}.{key}": value
        for index, values in plain[0]["state"].items()
        for key, value in values.items()
    }


def assert_same_training(one, other) -> None:
    """Equal weights, optimiser, curve and rollouts: bit by bit, step by step."""
    assert same_tensors(one.checkpoint, other.checkpoint)
    for name in ("curve.jsonl", "rollouts.jsonl"):
        assert (one.folder / name).read_bytes() == (other.folder / name).read_bytes(), name
    first, second = optimiser(one), optimiser(other)
    assert first and set(first) == set(second)
    assert all(torch.equal(first[name], second[name]) for name in first)
    states = [newest_state(training.folder / "state") for training in (one, other)]
    first, second = (state / "trained.safetensors" for state in states)
    assert first.read_bytes() == second.read_bytes()


@pytest.fixture(scope="module")
def whole(tiny_qwen, examples, tmp_path_factory):
    """Uninterrupted trainings of three steps, by their settings; `groups` is what was rewarded."""
    made = {}

    def trained(**settings):
        key = json.dumps(settings, sort_keys=True)
        if key not in made:
            reward = Letters()
            training = train(
                GrpoTrainer(
                    name="letters", settings=Settings(**{**FEW, **settings}), reward=reward
                ),
                [plugins.build("tasks", parse("reason_seg"), examples)],
                parse(f"qwen_vl(checkpoint={tiny_qwen},prompt=locate,max_new_tokens=6)"),
                tmp_path_factory.mktemp("whole") / "training",
                TrainingOptions(seed=3, keep_state=True),
            )
            made[key] = training, reward.groups
        return made[key]

    return trained


def test_a_training_leaves_a_checkpoint_a_curve_and_rollouts(whole, tiny_qwen):
    training, groups = whole()
    rows = training.curve.read()
    assert [row["step"] for row in rows] == [1, 2, 3]
    named = {
        "rewards/letters",
        "rewards/even",
        "rewards/total",
        "reward_std",
        "kl",
        "grad_norm",
        "think_length",
        "entropy",
        "frac_reward_zero_std",
        "frac_groups_all_zero",
        "completions/mean_length",
    }
    for row in rows:
        assert named <= set(row)
        assert "step_time" not in row
    assert (rows[0]["kl"], rows[-1]["kl"] > 0) == (0, True)
    assert [row["epoch"] for row in rows] == pytest.approx([2 / 3, 4 / 3, 2])
    rollouts = Curve(training.folder / "rollouts.jsonl").read()
    assert [(row["step"], row["rollout"]) for row in rollouts] == [
        (step, place) for step in (1, 2, 3) for _ in range(2) for place in range(4)
    ]
    for row in rollouts:
        assert row["components"]["total"] == row["components"]["letters"]
        assert row["tokens"] <= 6
        assert sorted(row["canvas"]) == [84, 112]
    totals = [row["components"]["total"] for row in rollouts if row["step"] == 1]
    assert rows[0]["reward_std"] == pytest.approx(stdev(totals))
    texts = [rollout.text for group in groups for rollout in group.rollouts]
    assert texts == [row["text"] for row in rollouts]
    mean = sum(row["components"]["total"] for row in rollouts[:8]) / 8
    assert mean == pytest.approx(rows[0]["rewards/total"])
    assert not same_tensors(training.checkpoint, tiny_qwen)
    manifest = training.manifest
    assert manifest["finetune"] == "full"
    assert manifest["method"]["settings"]["learning_rate"] == 0.003
    result = manifest["result"]
    assert (result["steps"], result["examples"], result["dropped"]) == (3, 3, {})
    assert result["epochs"] == 2


def test_every_sample_is_used_equally_often(whole):
    ids = [group.sample.id for group in whole()[1]]
    assert sorted(ids[:6]) == sorted(2 * ["val_00000", "val_00001", "val_00002"])


def test_groups_are_whole_and_know_their_sample(whole):
    groups = whole()[1]
    for group in groups:
        assert len(group.rollouts) == 4
        assert group.seconds == ()
        assert group.frames == ((0,),)
        assert group.count_tokens("abc") == 3
        assert group.sample.target is not None
        for rollout in group.rollouts:
            assert rollout.cut == (rollout.tokens == 6)
    first = [rollout.text for group in groups[:2] for rollout in group.rollouts]
    assert len(set(first)) >= 7


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"finetune": "lora"}, marks=pytest.mark.slow),
        pytest.param({"num_iterations": 2, "noise": "torch"}, marks=pytest.mark.slow),
    ],
    ids=["full", "lora", "two-steps-a-round"],
)
def test_a_training_that_died_and_goes_on_equals_one_that_did_not(
    begin, whole, told, died, settings
):
    told.dies_at = 3  # its state is saved before it is told
    with pytest.raises(died):
        begin("cut", **settings)
    told.dies_at = None
    resumed = begin("cut", resume=True, **settings)
    assert told.steps == [1, 2, 3]
    assert_same_training(whole(**settings)[0], resumed)


def apart(first, second, start) -> float:
    """How far two networks are from each other, as a share of how far one has come."""
    assert first.keys() == second.keys() <= start.keys()

    def norm(one, other):
        return (
            sum(float((one[name] - other[name]).double().square().sum()) for name in first) ** 0.5
        )

    return norm(first, second) / norm(first, start)


def means(training):
    """AdamW's means of gradients, which a factor of all of them changes as much."""
    return {name: one for name, one in optimiser(training).items() if name.endswith(".exp_avg")}


@pytest.mark.parametrize(
    "loss_type",
    [
        "grpo",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("dapo", "dr_grpo")),
    ],
)
def test_a_batch_of_eight_is_eight_batches_of_one(begin, tiny_qwen, loss_type):
    """Measured: 2e-5 apart at most, by the order of sums.

    Of the second step no more than loss and norm: AdamW makes whole steps of rounding, and of a
    third round, on some processors, another token.
    """
    given = {"prompt": "visionreasoner", "loss_type": loss_type, "max_steps": 2}
    one = begin("one", per_device_train_batch_size=8, **given)
    eight = begin("eight", per_device_train_batch_size=1, generation_micro_batch_size=3, **given)
    weights = [tensors(training.checkpoint) for training in (one, eight)]
    assert apart(*weights, tensors(tiny_qwen)) < 1e-3
    first, second = (means(training) for training in (one, eight))
    assert apart(first, second, {name: 0 * value for name, value in first.items()}) < 1e-3
    for first, second in zip(one.curve.read(), eight.curve.read(), strict=True):
        for name in ("loss", "grad_norm", "rewards/total", "kl", "entropy"):
            assert first[name] == pytest.approx(second[name], rel=1e-3, abs=1e-5), name
    texts = [
        [row["text"] for row in Curve(training.folder / "rollouts.jsonl").read()]
        for training in (one, eight)
    ]
    assert texts[0] == texts[1]


def test_a_second_pass_is_made_for_every_rollout_and_carries_no_gradient(begin, whole):
    requested = []

    def second(sample, rollout):
        requested.append((sample.id, rollout.text))
        return ChatRequest(
            key="any",
            text=f"again: {len(rollout.text)}",
            media=sample.query.media,
            resize=(56, 56),
            max_new_tokens=3,
        )

    reward = Letters()
    training = begin("second", reward, second=second)
    assert len(requested) == 3 * 8
    for group in reward.groups:
        assert len(group.seconds) == 4
        assert all(1 <= one.tokens <= 3 for one in group.seconds)
    assert same_tensors(training.checkpoint, whole()[0].checkpoint)
    row = Curve(training.folder / "rollouts.jsonl").read()[0]
    assert row["second"] == reward.groups[0].seconds[0].text
    assert training.curve.read()[0]["second_length"] <= 3


def broken(group):
    raise KeyError("bbox")


def test_a_reward_that_fails_ends_the_training_with_its_name(begin):
    with pytest.raises(ModelError, match=r"letters, sample val_0000\d: .*KeyError: 'bbox'"):
        begin("broken", broken)


def test_samples_that_cannot_be_learned_from_are_named(begin, told):
    def usable(sample):
        if sample.id == "val_00001":
            raise DataError("masks", expected="one", found="none")

    training = begin("some", usable=usable, max_steps=1, max_prompt_length=600)
    dropped = training.manifest["result"]["dropped"]
    assert dropped == {"no prompt or no ground truth": 1}
    assert any("reason_seg val_00001" in note for note in told.notes)
    with pytest.raises(DataError, match=r"3 dropped, .*'val_00000': .*50 tokens"):
        begin("none", max_prompt_length=50)


def test_prompts_that_are_too_long_are_left_out_counted_and_named(begin, tiny_qwen, examples, told):
    from harness.trainers.rows import encode_prompt

    model = plugins.build("models", parse(f"qwen_vl(checkpoint={tiny_qwen},prompt=locate)"))
    lengths = {
        sample.id: encode_prompt(model.chat.processor, request)["input_ids"].shape[1]
        for sample in plugins.build("tasks", parse("reason_seg"), examples).samples()
        for request in model.requests(sample.query)
    }
    *kept, longest = sorted(lengths, key=lengths.__getitem__)
    limit = lengths[kept[-1]]  # which is not beyond it
    assert lengths[longest] > limit
    reward = Letters()
    training = begin("mixed", reward, max_prompt_length=limit, max_steps=1)
    why = f"longer than {limit} tokens"
    result = training.manifest["result"]
    assert (result["examples"], result["dropped"]) == (2, {why: 1})
    assert result["dropped_samples"] == [
        {
            "task": "reason_seg",
            "sample": longest,
            "why": why,
            "detail": f"{lengths[longest]} tokens",
        },
    ]
    (note,) = (one for one in told.notes if "dropped" in one)
    assert note == (f"1 sample(s) dropped, {why}: reason_seg {longest} ({lengths[longest]} tokens)")
    assert {group.sample.id for group in reward.groups} == set(kept)


def test_what_a_round_cannot_be_shared_in_is_refused(begin):
    with pytest.raises(UsageError, match=r"per_device_train_batch_size=3 .*found 8\b"):
        begin("odd", per_device_train_batch_size=3)
    assert Settings(generation_batch_size=24, num_generations=4).accumulation_steps(3) == 2
    with pytest.raises(UsageError, match=r"=48: .*32, num_generations=8 .*4 processes"):
        Settings(generation_batch_size=48).accumulation_steps(4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num_generations": 1}, "num_generations=….*2, found 1"),
        ({"temperature": 0}, "temperature=….*0, .*found 0"),
        ({"finetune": "lora", "freeze_vision": True, "lora_layers": "all"}, "lora_layers"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"generation_batch_size": 12}, "found 12"),
        ({"generation_batch_size": 0}, "found 0"),
        ({"loss_type": "cispo"}, "largest ratio.*found none.*epsilon_high=5"),
        ({"loss_type": "cispo", "epsilon_high": 0.28}, "epsilon_high=0.28.*at least 1"),
    ],
)
def test_settings_out_of_range_are_refused(given, said):
    with pytest.raises(UsageError, match=said):
        Settings(**given)


def test_steps_follow_from_samples_and_epochs():
    assert Settings(num_train_epochs=5).steps(239) == 75
    assert Settings(num_train_epochs=1, num_iterations=2).steps(33) == 6
    assert Settings(max_steps=7).steps(239) == 7
    assert Settings(finetune="lora").peak_learning_rate > Settings().peak_learning_rate == 1e-6


def test_evaluating_while_training_changes_nothing_but_the_curve(begin, whole):
    def watch(folder, step):
        torch.rand(3)
        return {"eval/gIoU": step / 10}

    training = begin("watched", every=2, evaluate=watch)
    rows = training.curve.read()
    assert [row.pop("eval/gIoU", None) for row in rows] == [None, 0.2, None]
    assert rows == whole()[0].curve.read()
    assert same_tensors(training.checkpoint, whole()[0].checkpoint)


@pytest.mark.slow
def test_an_adapter_is_merged_and_kept(whole, tiny_qwen):
    training, _ = whole(finetune="lora")
    before, after = tensors(tiny_qwen), tensors(training.checkpoint)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved and not [name for name in moved if "visual" in name]
    assert tensors(training.folder / "adapter")


@pytest.mark.slow
def test_a_network_learns_what_is_rewarded(begin):
    training = begin(
        "learned",
        max_steps=12,
        learning_rate=0.01,
        generation_batch_size=12,
        save_steps=100,
        keep_state=False,
    )
    totals = [row["rewards/total"] for row in training.curve.read()]
    assert sum(totals[-3:]) / 3 > sum(totals[:3]) / 3 + 0.2


@pytest.mark.parametrize(
    "method", ["visionreasoner", pytest.param("seg_zero", marks=pytest.mark.slow)]
)
def test_a_method_trains_and_its_checkpoint_evaluates(method, tiny_qwen, examples, tmp_path, told):
    settings = ",".join(
        f"{name}={str(value).lower()}" for name, value in FEW.items() if name != "max_steps"
    )
    training = train(
        plugins.build("trainers", parse(f"{method}({settings},max_steps=1)")),
        [plugins.build("tasks", parse("reason_seg"), examples)],
        parse(f"{method}(checkpoint={tiny_qwen},canvas=112)"),
        tmp_path / "out",
        TrainingOptions(seed=1, progress=told),
    )
    assert training.manifest["method"]["settings"]["entropy_coef"] == 0.001
    assert "rewards/thinking_format" in training.curve.read()[0]
    model = plugins.build("models", parse(f"{method}(checkpoint={training.folder},canvas=112)"))
    assert model.describe()["chat"]["trained"]["method"] == method
    task = plugins.build("tasks", parse("reason_seg"), examples)
    (output,) = replace(model, max_new_tokens=4).predict([next(iter(task.samples())).query])
    assert output.responses


def constant(group):
    return [{"total": 1.0} for _ in group.rollouts]


LONG = {"max_steps": WINDOW + 3, "save_steps": 100, "learning_rate": 1e-5}


def test_an_alarm_is_noted_and_kept_in_curve_and_manifest(begin, told):
    training = begin("noted", constant, **LONG)
    notes = [note for note in told.notes if note.startswith("alarm")]
    assert "no_variance at step 8: since step 1 100% of the groups" in notes[0]
    assert len(notes) == 2 and "all_cut" in notes[1], "a random network never ends by itself"
    rows = training.curve.read()
    assert ["alarms/no_variance" in row for row in rows] == [False] * 7 + [True] * 4
    alarm, _ = training.manifest["result"]["alarms"]
    assert (alarm["name"], alarm["step"], alarm["since"]) == ("no_variance", 8, 1)
    assert training.manifest["method"]["settings"]["alarms"] == "note"


def test_an_alarm_may_stop_a_training_that_the_same_command_goes_on_with(begin, told):
    with pytest.raises(AlarmStop, match=r"step 8: .*no alarm.*100%.*state is saved"):
        begin("stopped", constant, alarms="stop", **LONG)
    stopped = told.steps[:]
    resumed = begin("stopped", constant, alarms="stop", **LONG)
    assert (stopped, told.steps[8:]) == (list(range(1, 9)), [9, 10, 11])
    assert sum(note.startswith("alarm") for note in told.notes) == 2, "they are not new"
    assert len(resumed.manifest["result"]["alarms"]) == 2
    assert_same_training(begin("whole", constant, **LONG), resumed)


def test_nothing_is_said_where_alarms_are_off(begin, told, died):
    given = LONG | {"alarms": "off", "save_steps": WINDOW + 1}
    told.dies_at = WINDOW + 2
    with pytest.raises(died):
        begin("off", constant, **given)
    told.dies_at = None
    training = begin("off", constant, **given)
    assert not any(note.startswith("alarm") for note in told.notes)
    assert not any("alarms/" in name for row in training.curve.read() for name in row)
    assert training.manifest["result"]["alarms"] == []


def test_completions_are_kept_as_a_table_a_round_and_told_to_loggers(begin, monkeypatch):
    import pyarrow.parquet as pq

    tables = []

    class Logger:
        def log(self, numbers, step):
            pass

        def log_table(self, name, columns, data, step):
            tables.append((name, columns, len(data), step))

    monkeypatch.setattr(session, "loggers", lambda *_: [Logger()])
    training = begin("table", log_completions=True, max_steps=2, keep_rollouts=0)
    files = sorted((training.folder / "completions").iterdir())
    assert [one.name for one in files] == [f"completions_0000{step}.parquet" for step in (1, 2)]
    columns = ["step", "prompt", "completion", "letters", "even", "total", "advantage"]
    assert tables == [("completions", columns, 8, step) for step in (1, 2)]
    table = pq.read_table(files[0]).to_pydict()
    assert list(table) == columns
    assert table["step"] == [1] * 8 and len(set(table["prompt"])) == 2
    row = training.curve.read()[0]
    assert sum(table["total"]) / 8 == pytest.approx(row["reward"])
    assert max(table["advantage"]) == pytest.approx(row["advantages/max"])


@pytest.mark.parametrize("method", ["visionreasoner", "sft"])
def test_a_logger_that_cannot_log_is_refused_before_anything_is_read(
    method, examples, tmp_path, monkeypatch
):
    def unread():
        raise AssertionError("a sample was read")

    task = replace(plugins.build("tasks", parse("reason_seg"), examples), samples=unread)
    trainer = plugins.build("trainers", parse(f"{method}(report_to=wandb)"))
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingDependency, match="wandb"):
        train(trainer, [task], parse("qwen_vl"), tmp_path / "out", TrainingOptions())
    assert not (tmp_path / "out").exists()

"""DR2Seg trained with a tiny random network: the second pass is made, and not learned from."""

import json
import statistics
from pathlib import Path

import pytest

from harness import plugins
from harness.run.train import TrainingOptions, train
from harness.spec import Spec, parse
from harness.trainer import Curve, NullProgress

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402

ensure_torchvision()
pytest.importorskip("peft")

FEW = {
    "num_generations": 2,
    "generation_batch_size": 4,
    "per_device_train_batch_size": 4,
    "max_completion_length": 8,
    "max_steps": 2,
    "save_steps": 2,
    "learning_rate": 0.003,
    "beta": 0.0,
    "report_to": "none",
    "keep_rollouts": 2,
}


@pytest.fixture(scope="module")
def begin(tiny_qwen, examples, tmp_path_factory):
    def begun(model="dr2seg", /, progress=None, **settings):
        return train(
            plugins.build("trainers", Spec("dr2seg", {**FEW, **settings})),
            [plugins.build("tasks", parse("reason_seg"), examples)],
            parse(f"{model}(checkpoint={tiny_qwen},segmenter=box)"),
            tmp_path_factory.mktemp("training") / "out",
            TrainingOptions(seed=3, progress=progress or NullProgress()),
        )

    return begun


def tensors(folder: Path):
    from safetensors.torch import load_file

    return {
        name: one
        for path in sorted(folder.glob("*.safetensors"))
        for name, one in load_file(path).items()
    }


@pytest.fixture(scope="module")
def random_reward(begin):
    """Learns from a number that does not depend on what is said, with the second pass."""
    return begin(reward="random")


def test_every_rollout_leads_to_a_second_response_and_every_term_is_logged(random_reward):
    training = random_reward
    rows = training.curve.read()
    assert [row["step"] for row in rows] == [1, 2]
    terms = ("description", "length", "length_factor", "accuracy", "tokens_first", "non_repeat")
    assert {f"rewards/{name}" for name in terms} <= set(rows[0])
    assert {"second_length", "frac_groups_all_zero"} <= set(rows[0])
    kept = Curve(training.folder / "rollouts.jsonl").read()
    assert len(kept) == 2 * 2 * 2
    assert all(isinstance(row["second"], str) for row in kept)
    json.dumps(training.manifest)


def test_the_entropy_of_answers_is_in_the_curve_of_a_network_that_answers(examples, tmp_path):
    few = {
        **FEW,
        "generation_batch_size": 2,
        "per_device_train_batch_size": 2,
        "max_completion_length": 96,
        "max_steps": 1,
    }
    training = train(
        plugins.build("trainers", Spec("visionreasoner", few)),
        [plugins.build("tasks", parse("reason_seg"), examples)],
        parse("pocket"),
        tmp_path / "out",
        TrainingOptions(seed=3),
    )
    (row,) = training.curve.read()
    responses = [one["text"] for one in Curve(training.folder / "rollouts.jsonl").read()]
    assert any("<answer>" in response for response in responses)
    assert 0 < row["answer_entropy"] < 20


def test_what_is_learned_from_is_kept_with_each_response(random_reward):
    rows = Curve(random_reward.folder / "rollouts.jsonl").read()
    for one, other in zip(rows[::2], rows[1::2], strict=True):
        totals = [row["components"]["total"] for row in (one, other)]
        mean, deviation = statistics.fmean(totals), statistics.stdev(totals)
        for row, total in zip((one, other), totals, strict=True):
            expected = (total - mean) / (deviation + 1e-4)
            assert row["advantage"] == pytest.approx(expected, rel=1e-4)
            assert row["task"] == "reason_seg" and row["unread"] and row["boxes"] == []


def seconds(training):
    """What the second pass said, group by group; a random network names nothing to ask for."""
    rows = Curve(training.folder / "rollouts.jsonl").read()
    return [{row["second"] for row in pair} for pair in zip(rows[::2], rows[1::2], strict=True)]


def test_a_greedy_second_pass_says_the_same_to_the_same_request(begin, random_reward, told):
    greedy = begin("qwen_vl", progress=told, reward="random", second_temperature=0.0, max_steps=1)
    assert {len(texts) for texts in seconds(greedy)} == {1}
    assert max(len(texts) for texts in seconds(random_reward)) == 2
    assert greedy.manifest["method"]["settings"]["second_temperature"] == 0
    assert any("--eval-model" in note for note in told.notes)


def test_no_token_of_the_second_pass_is_learned_from(begin, random_reward):
    """Without a second pass the same random rewards lead to the same weights, bit for bit."""
    without = begin(reward="random", r_desc=False, r_len=False)
    assert "second_length" not in without.curve.read()[0]
    with_it, without_it = tensors(random_reward.checkpoint), tensors(without.checkpoint)
    assert with_it.keys() == without_it.keys()
    assert all(torch.equal(with_it[name], without_it[name]) for name in with_it)


def test_the_random_rewards_did_teach_something(random_reward, tiny_qwen):
    before, after = tensors(tiny_qwen), tensors(random_reward.checkpoint)
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_the_manifest_tells_the_methods_settings(random_reward):
    settings = random_reward.manifest["method"]["settings"]
    assert (settings["n0"], settings["gamma"], settings["r_len"]) == (45, 0.05, True)


def test_a_checkpoint_answers_as_the_plugin_of_the_method(random_reward, examples):
    model = plugins.build(
        "models", parse(f"dr2seg(checkpoint={random_reward.folder},segmenter=box,max_new_tokens=4)")
    )
    task = plugins.build("tasks", parse("reason_seg"), examples)
    (prediction,) = model.predict([next(iter(task.samples())).query])
    assert prediction.responses

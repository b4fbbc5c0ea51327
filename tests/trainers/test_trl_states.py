"""States of `engine=trl`: a training that died or was stopped goes on to the same bytes."""

import os
import signal

import pytest

torch = pytest.importorskip("torch")
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402

ensure_torchvision()
trl = pytest.importorskip("trl")
if trl.__version__.startswith("1.15."):
    pytest.importorskip("triton", reason="this release computes losses by Triton's kernels alone")

import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from harness import plugins  # noqa: E402
from harness.errors import StoreError, UsageError  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402
from harness.trainers.state import newest_state, step_of  # noqa: E402

FEW = {
    "engine": "trl",
    "reward": "random",
    "num_generations": 2,
    "generation_batch_size": 4,
    "per_device_train_batch_size": 2,
    "max_completion_length": 6,
    "max_steps": 4,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "linear",
    "report_to": None,
}


@pytest.fixture
def begin(tiny_qwen, examples, tmp_path, told):
    """Trains by TRL, in a folder of this name."""
    task = plugins.build("tasks", parse("reason_seg"), examples)

    def begin(name, **settings):
        chosen = Settings(**{**FEW, **settings})
        return train(
            GrpoTrainer(name="m", settings=chosen, reward=lambda group: [{"total": 0.0}] * 2),
            [task],
            parse(f"qwen_vl(checkpoint={tiny_qwen},prompt=locate)"),
            tmp_path / name,
            TrainingOptions(seed=5, progress=told, keep_state=True),
        )

    return begin


def assert_same(one, other):
    """Equal weights, curve and rollouts."""
    first, second = (load_file(run.checkpoint / "model.safetensors") for run in (one, other))
    assert first.keys() == second.keys()
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())
    for name in ("curve.jsonl", "rollouts.jsonl"):
        assert (one.folder / name).read_bytes() == (other.folder / name).read_bytes(), name


@pytest.mark.parametrize(
    ("settings", "saved"),
    [
        ({"save_steps": 1}, 3),
        ({"save_steps": 1, "finetune": "lora", "lora_r": 4, "beta": 0.04}, 3),
        ({"save_steps": 1, "num_iterations": 2, "max_steps": 6, "beta": 0.04}, 2),
        ({}, None),
    ],
    ids=["full", "lora", "two steps a round", "no state"],
)
def test_a_training_that_died_goes_on_to_the_same_bytes(
    begin, tmp_path, told, died, settings, saved
):
    whole = begin("whole", **settings)
    told.dies_at = 4
    with pytest.raises(died):
        begin("cut", **settings)
    state = newest_state(tmp_path / "cut" / "state")
    assert (state and step_of(state)) == saved
    told.dies_at = None
    assert_same(begin("cut", **settings), whole)
    where = "starts again at step 0" if saved is None else f"resumes after step {saved}"
    assert any(where in note for note in told.notes)


def test_a_signal_saves_the_state_after_its_round(begin, tmp_path, told, monkeypatch):
    whole, step = begin("whole"), told.step

    def asked_to_stop(done, numbers):
        step(done, numbers)
        if done == 1 and "loss" in numbers:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(told, "step", asked_to_stop)
        with pytest.raises(KeyboardInterrupt):
            begin("cut", save_total_limit=2)
    state = newest_state(tmp_path / "cut" / "state")
    assert step_of(state) == 2 and not (state / "training_args.bin").exists()
    assert {path.name for path in state.parent.iterdir()} == {"step-2"}
    assert_same(begin("cut", save_total_limit=2), whole)


def test_a_finished_training_makes_more_steps(begin):
    given = {"lr_scheduler_type": "constant_with_warmup"}
    whole = begin("whole", max_steps=5, **given)
    begin("grown", **given)
    assert_same(begin("grown", max_steps=5, **given), whole)


def test_a_training_that_ended_within_a_round_is_not_continued(begin):
    given = {"lr_scheduler_type": "constant_with_warmup", "num_iterations": 2}
    begin("grown", max_steps=3, **given)
    with pytest.raises(UsageError, match="num_iterations=2"):
        begin("grown", max_steps=6, **given)


@pytest.mark.parametrize("fault", [RuntimeError("unexpected pos 64"), OSError(28, "No space")])
def test_a_full_disk_is_told_as_one(begin, monkeypatch, fault):
    def full(*given, **more):
        raise fault

    monkeypatch.setattr(transformers.Trainer, "save_model", full)
    with pytest.raises(StoreError, match="No space"):
        begin("out")

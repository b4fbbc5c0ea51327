"""States of `engine=trl`: a training that died or was stopped goes on to the same bytes."""

import os
import shutil
import signal
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402

ensure_torchvision()
trl = pytest.importorskip("trl")
if trl.__version__.startswith("1.15."):
    pytest.importorskip("triton", reason="this release computes losses by Triton's kernels alone")

import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from harness import plugins  # noqa: E402
from harness.errors import ModelError, StoreError, UsageError  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.trainers.grpo import trl_steps  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402
from harness.trainers.state import newest_state, note_files, save_tensors, step_of  # noqa: E402

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


FILES = ("model.safetensors", "optimizer.pt", "rng_state.pth", "trainer_state.json")
"""Files of a state, weights first."""


@pytest.fixture(scope="module")
def saved(tiny_qwen, tmp_path_factory):
    """A state as TRL's engine saves them, and its network."""
    from harness.models.backends.networks import load_network

    network = load_network(
        tiny_qwen, name="it", dtype="auto", attn_implementation="auto", adapter=None
    )
    state = tmp_path_factory.mktemp("saved") / "step-1"
    state.mkdir()
    save_tensors(state / FILES[0], network.state_dict())
    for name in FILES[1:]:
        (state / name).write_bytes(name.encode())
    note_files(state)
    return SimpleNamespace(state=state, network=network)


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
        ({"save_steps": 1}, 4),
        ({"save_steps": 3, "max_steps": 5}, 3),
        ({"save_steps": 1, "finetune": "lora", "lora_r": 4, "beta": 0.04}, 4),
        ({"save_steps": 1, "num_iterations": 2, "max_steps": 6, "beta": 0.04}, 4),
        ({"max_steps": 5}, None),
    ],
    ids=["full", "between states", "lora", "two steps a round", "no state"],
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


def test_a_total_within_a_round_is_refused_at_the_start(begin, tmp_path):
    with pytest.raises(UsageError, match=r"max_steps=3, not .*num_iterations=2"):
        begin("out", max_steps=3, num_iterations=2)
    assert not (tmp_path / "out").exists()


WRITERS = "[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"
"""What torch says where a disk is full."""


@pytest.mark.parametrize("fault", [RuntimeError(WRITERS), OSError(28, "No space")])
def test_a_full_disk_is_told_as_one(begin, monkeypatch, fault):
    def full(*given, **more):
        raise fault

    monkeypatch.setattr(transformers.Trainer, "save_model", full)
    with pytest.raises(StoreError, match="No space"):
        begin("out")


@pytest.mark.parametrize(
    "fault",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate"),
        RuntimeError("The size of tensor a (2) must match the size of tensor b (3)"),
    ],
    ids=["GPU", "CPU", "shape"],
)
def test_what_is_no_full_disk_is_not_told_as_one(begin, monkeypatch, fault):
    def fails(*given, **more):
        raise fault

    monkeypatch.setattr(transformers.Trainer, "save_model", fails)
    with pytest.raises(ModelError, match=type(fault).__name__) as raised:
        begin("out")
    assert raised.value.__cause__ is fault


def cut_off(state, name):
    file = state / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flipped(state, name):
    file = state / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def gone(state, name):
    (state / name).unlink()


def of_another_network(state, name):
    tensors = load_file(state / name)
    dropped = sorted(tensors)[0]
    save_file({one: tensor for one, tensor in tensors.items() if one != dropped}, state / name)
    note_files(state)


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        *((damage, name) for damage in (cut_off, flipped, gone) for name in FILES),
        (gone, "files.json"),
        (cut_off, "files.json"),
        (of_another_network, "model.safetensors"),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_damaged_or_foreign_state_is_refused_with_what_to_do(saved, tmp_path, damage, name):
    state = tmp_path / "step-1"
    shutil.copytree(saved.state, state)
    trl_steps.check_state(state, saved.network)
    damage(state, name)
    with pytest.raises(StoreError, match=r"(?s)step-1.*(Delete its folder|another --out)"):
        trl_steps.check_state(state, saved.network)


def test_a_training_does_not_go_on_from_a_damaged_state(begin, tmp_path):
    begin("out", max_steps=1, lr_scheduler_type="constant_with_warmup")
    flipped(tmp_path / "out" / "state" / "step-1", "optimizer.pt")
    with pytest.raises(StoreError, match=r"optimizer\.pt that were saved"):
        begin("out", max_steps=2, lr_scheduler_type="constant_with_warmup")

"""What no optimiser step is made with, what no state holds, and what is kept of a training."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from harness import plugins  # noqa: E402
from harness.errors import StoreError, UsageError  # noqa: E402
from harness.rehearsal.stages import free_port  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.run.training_record import Training  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.trainers import guards, state  # noqa: E402
from harness.trainers.guards import UnstableTraining, check_step, check_weights  # noqa: E402
from harness.trainers.sft.trainer import SftSettings  # noqa: E402

MODEL = "qwen_vl(checkpoint={})"


@pytest.fixture
def task(examples):
    return plugins.build("tasks", "reason_seg", examples)


@pytest.fixture
def begin(task, tiny_qwen, tmp_path):
    def begin(settings, out="out", checkpoint=tiny_qwen, **options):
        trainer = plugins.build("trainers", parse(f"sft({settings},report_to=none)"))
        model = parse(MODEL.format(checkpoint))
        return train(trainer, [task], model, tmp_path / out, TrainingOptions(**options))

    return begin


@pytest.mark.parametrize(
    ("losses", "norm", "named"),
    [
        ([1.0, math.nan], 1.0, "loss of nan, of samples b"),
        ([math.inf, 1.0], None, "loss of inf, of samples a"),
        ([1.0, 1.0], math.inf, "gradient of norm inf, of samples a, b"),
    ],
)
def test_numbers_that_are_not_finite_end_a_step_by_name(losses, norm, named):
    with pytest.raises(UnstableTraining, match=f"step 4: .*{named}.*max_grad_norm=0"):
        check_step(4, losses, norm, [["a"], ["b"]], {"max_grad_norm": 0})


def test_finite_numbers_of_any_size_do_not():
    check_step(4, [3e38, -3e38], 3e38, [], {})
    check_step(4, [1.0], None, [], {})


def test_weights_are_looked_at_one_by_one():
    layer = torch.nn.Linear(3, 2)
    check_weights(layer, {})
    with torch.no_grad():
        layer.weight.fill_(3e38)  # whose sum is not finite
    check_weights(layer, {})
    with torch.no_grad():
        layer.bias[1] = math.nan
    with pytest.raises(UnstableTraining, match="weight bias"):
        check_weights(layer, {})


@pytest.mark.parametrize(("rank", "broken", "named"), [(0, 1, True), (1, 0, True), (1, 1, False)])
def test_of_sharded_weights_each_process_looks_at_its_own_shard(rank, broken, named):
    """ZeRO-3 leaves a weight without numbers: 3 of them, in shards of 2; the last one is padded."""
    layer = torch.nn.Linear(1, 1, bias=False)
    layer.weight.data = torch.empty(0)
    layer.weight.ds_numel, layer.weight.ds_tensor = 3, torch.ones(2)
    layer.weight.ds_tensor.ds_numel = 2
    layer.weight.ds_tensor[broken] = math.nan
    if not named:
        check_weights(layer, {}, rank=rank)
        return
    with pytest.raises(UnstableTraining, match="weight weight"):
        check_weights(layer, {}, rank=rank)


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_no_state_of_deepspeed_holds_a_weight_that_is_not_finite(stage, tmp_path):
    from harness.trainers.learner import Learner

    plugin = SimpleNamespace(zero_stage=stage) if stage else None
    learner = SimpleNamespace(
        settings=SftSettings(report_to=None),
        network=torch.nn.Linear(1, 1),
        accelerator=SimpleNamespace(
            process_index=0, state=SimpleNamespace(deepspeed_plugin=plugin)
        ),
    )
    learner.check_weights = partial(Learner.check_weights, learner)
    learner.network.bias.data.fill_(math.inf)
    with pytest.raises(UnstableTraining, match="weight bias"):
        Learner.save_state(learner, None, 1, None)


def test_a_training_whose_loss_is_nan_stops_and_keeps_the_good_state(begin, tmp_path):
    with pytest.raises(UnstableTraining, match="learning_rate=1e\\+30"):
        begin("learning_rate=1e30,max_grad_norm=0,max_steps=6,save_steps=1", keep_state=True)
    kept = state.newest_state(tmp_path / "out" / "state")
    tensors = load_file(kept / "trained.safetensors")
    assert all(tensor.isfinite().all() for tensor in tensors.values())
    assert not (tmp_path / "out" / "checkpoint").exists()
    curve = [json.loads(line) for line in (tmp_path / "out" / "curve.jsonl").open()]
    assert all(math.isfinite(number) for row in curve for number in row.values())


def test_weights_of_half_precision_are_trained_in_float32(begin, tiny_qwen, tmp_path):
    half = tmp_path / "half"
    half.mkdir()
    for path in Path(tiny_qwen).iterdir():
        (half / path.name).write_bytes(path.read_bytes())
    weights = load_file(half / "model.safetensors")
    halved = {name: weight.to(torch.bfloat16) for name, weight in weights.items()}
    save_file(halved, half / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((half / "config.json").read_text())
    (half / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))

    def changed(settings, out):
        after = load_file(begin(settings, out, half).checkpoint / "model.safetensors")
        pairs = [(after[name].float(), halved[name].float()) for name in halved]
        moved = sum(int((new != old).sum()) for new, old in pairs)
        return moved / sum(new.numel() for new, _ in pairs)

    usual = "learning_rate=1e-6,max_steps=3"
    assert changed(usual, "default") >= 0.9
    assert changed(f"{usual},dtype=bfloat16", "half-precision") < 0.1


def test_the_last_and_the_best_checkpoints_are_kept(begin, tmp_path):
    settings = "max_steps=5,save_steps=1,save_total_limit=2,learning_rate=1e-3"
    training = begin(f"{settings},metric_for_best_model=loss,load_best_model_at_end=true")
    losses = {row["step"]: row["loss"] for row in training.curve.read()}
    best = min(losses, key=losses.get)
    there = {path.name for path in (tmp_path / "out" / "checkpoints").iterdir()}
    assert there == {f"step-{step}" for step in {4, 5, best}}
    final = (training.checkpoint / "model.safetensors").read_bytes()
    kept = tmp_path / "out" / "checkpoints" / f"step-{best}" / "model.safetensors"
    assert final == kept.read_bytes()
    assert training.manifest["result"]["best_step"] == best


def test_the_best_of_nothing_is_refused(begin):
    with pytest.raises(UsageError, match="metric_for_best_model"):
        begin("max_steps=1,load_best_model_at_end=true")
    with pytest.raises(UsageError, match="loss"):
        begin("max_steps=1,metric_for_best_model=reward", "other")


@pytest.mark.parametrize("text", ["No space left on device (os error 28)", "I/O error"])
def test_a_full_disk_is_told_as_one(tmp_path, monkeypatch, text):
    from safetensors import SafetensorError

    def full(tensors, path):
        raise SafetensorError(f"Error while serializing: {text}")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(StoreError), state.saved_state(tmp_path / "state", 1) as folder:
        state.save_tensors(folder / "x", {"a": torch.zeros(1)})


@pytest.mark.parametrize(
    ("fault", "is_of_disk"),
    [
        ("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534", True),
        ("basic_ios::clear: iostream error", True),
        ("Parent directory /gone does not exist.", True),
        ("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory", False),
        ("The size of tensor a (2) must match the size of tensor b (3)", False),
    ],
)
def test_only_errors_of_torchs_writer_are_those_of_a_disk(tmp_path, monkeypatch, fault, is_of_disk):
    def fails(states, path):
        raise RuntimeError(fault)

    monkeypatch.setattr(torch, "save", fails)
    with (
        pytest.raises(StoreError if is_of_disk else RuntimeError),
        state.saved_state(tmp_path / "state", 1) as folder,
    ):
        state.save_optimizers(folder / "x", [])


def test_torchs_writer_says_of_a_full_device_what_is_known_of_it(tmp_path):
    with pytest.raises(OSError, match="No space"), state.as_system_errors(tmp_path):
        torch.save({"a": torch.ones(10**5)}, "/dev/full")


SLOW = """
import sys, time
from pathlib import Path
from harness import plugins
from harness.run.train import TrainingOptions, train
from harness.spec import parse
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainer import NullProgress
from harness.cli.main import main

data, checkpoint, out = sys.argv[1:]
def slow(group):
    if (Path(out) / "curve.jsonl").read_text().strip():
        (Path(out).parent / "begun").touch()
        time.sleep(120)
    return [{"total": float(len(one.text) % 7)} for one in group.rollouts]

settings = Settings(num_generations=2, generation_batch_size=4, per_device_train_batch_size=2,
    max_completion_length=4, max_steps=3, report_to=None)
task = plugins.build("tasks", "reason_seg", Path(data))
train(GrpoTrainer(name="slow", settings=settings, reward=slow), [task],
    parse(f"qwen_vl(checkpoint={checkpoint})"), Path(out), TrainingOptions())
"""


def test_a_signal_inside_a_long_round_saves_the_state_before_it(examples, tiny_qwen, tmp_path):
    out = tmp_path / "out"
    line = [sys.executable, "-c", SLOW, str(examples), str(tiny_qwen), str(out)]
    process = subprocess.Popen(
        line, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    for _ in range(1200):
        if (tmp_path / "begun").exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - began < 30
    assert b"KeyboardInterrupt" in errors
    assert state.step_of(state.newest_state(out / "state")) == 1
    assert not Training.open(out).is_finished


ONE_FAILS = """
import os, sys
from pathlib import Path
from harness import plugins
from harness.errors import DataError
from harness.run.train import TrainingOptions, train
from harness.spec import parse
from harness.trainers.grpo import loop
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer

data, checkpoint, out = sys.argv[1:]
encode = loop.encoded_each
def encoded_each(processor, requests):
    if os.environ["RANK"] == "1" and (Path(out) / "curve.jsonl").read_text().strip():
        raise DataError("image", expected="a file", found="none")
    return encode(processor, requests)
loop.encoded_each = encoded_each
settings = Settings(num_generations=2, generation_batch_size=4, per_device_train_batch_size=2,
    max_completion_length=4, max_steps=4, report_to=None)
task = plugins.build("tasks", "reason_seg", Path(data))
reward = lambda group: [{"total": float(len(one.text) % 7)} for one in group.rollouts]
train(GrpoTrainer(name="one", settings=settings, reward=reward), [task],
    parse(f"qwen_vl(checkpoint={checkpoint})"), Path(out), TrainingOptions())
"""


@pytest.mark.slow
def test_an_error_of_one_process_ends_all_and_the_state_is_saved(examples, tiny_qwen, tmp_path):
    out, port = tmp_path / "out", str(free_port())
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    line = [sys.executable, "-c", ONE_FAILS, str(examples), str(tiny_qwen), str(out)]
    processes = []
    for rank in "01":
        launched = {"RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": "1", **shared}
        environment = {**os.environ, **launched}
        processes.append(subprocess.Popen(line, env=environment, stderr=subprocess.DEVNULL))
    codes = [process.wait(timeout=180) for process in processes]
    assert 0 not in codes
    # The other process may be a step behind in what it reads of the curve.
    assert state.step_of(state.newest_state(out / "state")) in (1, 2)


def test_advice_names_what_is_set():
    assert "learning_rate=0.1, dtype=auto" in guards.advice({"learning_rate": 0.1, "dtype": "auto"})

"""A checkpoint with an adapter merged into it holds all that was learned, whatever the base's type.

The base is of bfloat16, in which most changes of a few steps are below a weight's last bit.
"""

import json
import shutil

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from harness import plugins  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402

ensure_torchvision()
pytest.importorskip("peft")

FILE = "model.safetensors"
PREFIX = "base_model.model."
ROUNDS = {
    "num_generations": 2,
    "generation_batch_size": 4,
    "per_device_train_batch_size": 2,
    "max_completion_length": 4,
    "reward": "random",
}
BEST = {"save_steps": 1, "metric_for_best_model": "loss", "load_best_model_at_end": True}


@pytest.fixture(scope="module")
def half(tiny_qwen, tmp_path_factory):
    """The tiny network in bfloat16."""
    folder = tmp_path_factory.mktemp("half") / "base"
    shutil.copytree(tiny_qwen, folder)
    halved = {name: one.to(torch.bfloat16) for name, one in load_file(folder / FILE).items()}
    save_file(halved, folder / FILE, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    return folder


@pytest.fixture
def begin(half, examples, tmp_path, told):
    def begin(engine, **settings):
        given = {"finetune": "lora", "max_steps": 5, "report_to": None, **settings}
        if engine == "sft":
            text = ",".join(f"{name}={value}".lower() for name, value in given.items())
            trainer = plugins.build("trainers", parse(f"sft({text})"))
        else:
            chosen = Settings(**ROUNDS, **given, engine=engine)
            reward = lambda group: [{"total": 0.0}] * 2  # noqa: E731
            trainer = GrpoTrainer(name="m", settings=chosen, reward=reward)
        task = plugins.build("tasks", "reason_seg", examples)
        spec = parse(f"qwen_vl(checkpoint={half},prompt=locate)")
        return train(trainer, [task], spec, tmp_path / "out", TrainingOptions(progress=told))

    return begin


def changes_of(training):
    """B·A of each adapted weight, scaled, in float64."""
    adapter = load_file(training.folder / "adapter" / "adapter_model.safetensors")
    config = json.loads((training.folder / "adapter" / "adapter_config.json").read_text())
    scale, changes = config["lora_alpha"] / config["r"], {}
    for name, first in adapter.items():
        if ".lora_A." in name:
            second = adapter[name.replace(".lora_A.", ".lora_B.")]
            weight = name.removeprefix(PREFIX).replace(".lora_A", "")
            changes[weight] = scale * second.double() @ first.double()
    return changes


def published(name):
    """A weight's name in the checkpoint's file."""
    return name.replace("model.language_model.", "model.")


@pytest.mark.parametrize("engine", ["sft", "harness", "trl"])
@pytest.mark.parametrize("more", [{}, BEST], ids=["last", "best"])
def test_an_export_is_the_base_and_the_adapter_to_the_last_digit(begin, half, engine, more):
    if engine == "trl":
        pytest.importorskip("trl")
    training = begin(engine, **more)
    before, after = load_file(half / FILE), load_file(training.checkpoint / FILE)
    changes = {published(name): change for name, change in changes_of(training).items()}
    assert len(changes) == 14 and changes.keys() < before.keys() == after.keys()
    for name, weight in after.items():
        if name not in changes:
            assert weight.dtype == before[name].dtype and torch.equal(weight, before[name]), name
            continue
        learned, change = weight.double() - before[name].double(), changes[name]
        assert weight.dtype == torch.float32 and change.abs().max() > 0, name
        wanted = before[name].double() + change
        assert (weight - wanted).norm() <= 1e-6 * wanted.norm(), name
        assert (learned - change).norm() <= 0.01 * change.norm(), name  # float32 ends there
    assert not (training.checkpoint / "adapter").exists()
    assert training.manifest["result"]["checkpoint"] == {
        "dtype": "float32",
        "bytes": (training.checkpoint / FILE).stat().st_size,
    }
    assert training.manifest["result"].get("best_step", 5) <= 5


def test_an_export_is_evaluated_in_float32_unless_another_type_is_asked_for(begin):
    training = begin("sft", max_steps=1)
    for asked, dtype in (("auto", torch.float32), ("bfloat16", torch.bfloat16)):
        spec = f"qwen_vl(checkpoint={training.folder},backend=transformers(dtype={asked}))"
        chat = plugins.build("models", parse(spec)).chat
        assert {weight.dtype for weight in chat.network.parameters()} == {dtype}
        assert chat.describe()["dtype"] == str(dtype).removeprefix("torch."), "a run's record"


def test_the_start_line_says_the_type_of_what_is_trained(begin, told):
    begin("sft", max_steps=1)
    (line,) = [note for note in told.notes if note.startswith("trains ")]
    assert "weights in float32:" in line

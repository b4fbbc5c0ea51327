"""Weights of a checkpoint that transformers does not load come back out of a training."""

import shutil

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from harness import plugins  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.spec import parse  # noqa: E402

ensure_torchvision()
pytest.importorskip("peft")

HEADS = {
    "mtp.fc.weight": torch.arange(6.0).view(2, 3).to(torch.bfloat16),
    "mtp.layers.0.input_layernorm.weight": torch.ones(4, dtype=torch.bfloat16),
}
"""As Qwen3.5 has, beside the network that transformers makes."""


@pytest.fixture
def with_heads(tiny_qwen35, tmp_path):
    folder = tmp_path / "with-heads"
    shutil.copytree(tiny_qwen35, folder)
    file = folder / "model.safetensors"
    save_file({**load_file(file), **HEADS}, file, metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("finetune", ["full", "lora"])
def test_layers_that_predict_several_tokens_are_exported_as_they_were(
    with_heads, examples, tmp_path, finetune
):
    settings = f"max_steps=1,learning_rate=0.01,report_to=none,finetune={finetune}"
    trained = train(
        plugins.build("trainers", parse(f"sft({settings})")),
        [plugins.build("tasks", "reason_seg", examples)],
        parse(f"qwen_vl(checkpoint={with_heads},prompt=locate)"),
        tmp_path / "out",
        TrainingOptions(),
    )
    before = load_file(with_heads / "model.safetensors")
    after = load_file(trained.checkpoint / "model.safetensors")
    assert after.keys() == before.keys()
    for name, head in HEADS.items():
        assert after[name].dtype == head.dtype and torch.equal(after[name], head), name
    assert any(not torch.equal(before[name], after[name]) for name in before.keys() - HEADS.keys())
    model = plugins.build("models", parse(f"qwen_vl(checkpoint={trained.folder})"))
    assert model.chat.network.config.model_type == "qwen3_5"

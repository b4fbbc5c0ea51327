"""A model with an adapter beside its weights is refused: training would leave the adapter out."""

import json

import pytest

pytest.importorskip("torch")

from harness.errors import UsageError
from harness.spec import parse
from harness.trainers.network import trainable


@pytest.fixture
def adapter(tiny_qwen, tmp_path):
    """A folder that passes for a LoRA adapter of the checkpoint until it is loaded."""
    from safetensors.torch import save_file
    from torch import zeros

    plain = {"peft_type": "LORA", "base_model_name_or_path": str(tiny_qwen)}
    (tmp_path / "adapter_config.json").write_text(json.dumps(plain))
    save_file({"a": zeros(1)}, tmp_path / "adapter_model.safetensors")
    return tmp_path


@pytest.mark.parametrize("merged", ["true", "false"])
def test_an_adapter_beside_the_weights_is_refused_and_merging_is_explained(
    tiny_qwen, adapter, merged
):
    backend = f"transformers(adapter={adapter},merged={merged})"
    spec = parse(f"visionreasoner(checkpoint={tiny_qwen},backend={backend})")
    with pytest.raises(UsageError, match=r"(?s)adapter .*merge_and_unload.*checkpoint="):
        trainable("visionreasoner", spec)


def test_whole_weights_are_trained(tiny_qwen):
    trainable("visionreasoner", parse(f"visionreasoner(checkpoint={tiny_qwen})"))

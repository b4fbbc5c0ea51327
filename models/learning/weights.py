"""Choose which weights of a VLM are trained (no vision tower, or a LoRA adapter) and which decay.

Trainers and test-time adaptation call these; networks are recognised by transformers' names of
their layers.
"""

import re
from typing import TYPE_CHECKING, Any, Literal

from harness.errors import UsageError

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import nn
    from transformers import PreTrainedModel

LINEAR = r"((q|k|v|o|qkv|gate|up|gate_up|down)_proj|linear_attn\.(in_proj_\w+|out_proj))"
"""Matches linear layers of a language model ("q_proj"); the second half are Qwen3.5's linear
attention layers ("linear_attn.in_proj_qkvz")."""
MERGER = "merger"
"""Part of the names of the layers that map a tower's features to the language model."""
TOWER = r"(visual|vision_tower|vision_model|vision_encoder|audio_tower|audio_encoder)\."
"""Matches the networks that encode images and sounds ("visual.blocks.0…")."""
LAYERS = {
    "language": rf"(?!.*({TOWER}|projector\.)).*\.{LINEAR}",
    "all": rf".*(language_model.*\.{LINEAR}"
    rf"|{TOWER}(?!.*{MERGER}).*\.(qkv|proj|out_proj|fc1|fc2|linear_fc1|linear_fc2|{LINEAR}))",
}
"""Patterns of the names of the linear layers that an adapter is put on, by the option `layers`."""


def is_of_tower(name: str) -> bool:
    """Return True for the name of a weight of a vision or audio tower.

    >>> is_of_tower("model.vision_tower.encoder.layers.0.self_attn.q_proj.weight")
    True
    """
    return re.search(TOWER, name) is not None


def is_language(name: str) -> bool:
    """Return True for the name of a weight of a language model's linear layer, or its adapter.

    >>> is_language("model.language_model.layers.0.mlp.up_proj.weight")
    True
    >>> is_language("model.vision_tower.encoder.layers.0.self_attn.q_proj.weight")
    False
    """
    return re.match(f"{LAYERS['language']}\\.", name) is not None


def freeze_vision(network: "PreTrainedModel") -> None:
    """Exclude the vision tower from training.

    The merger layers, which map its features to the language model, are trained (Qwen2.5-VL's
    `visual.merger`, Qwen3-VL's deep ones too).

    Raises:
        UsageError: the network has no vision tower.
    """
    frozen = [
        parameter
        for name, parameter in network.named_parameters()
        if is_of_tower(name) and MERGER not in name
    ]
    if not frozen:
        raise UsageError(
            "freeze_vision=true",
            expected="a network with a vision tower (visual, vision_tower, vision_model, …)",
            found=type(network).__name__,
        )
    for parameter in frozen:
        parameter.requires_grad_(False)


def with_adapter(
    network: "PreTrainedModel",
    *,
    r: int,
    lora_alpha: int,
    layers: Literal["language", "all"],
    lora_dropout: float = 0.0,
) -> "PeftModel":
    """Return the network with a new LoRA adapter; only the adapter's weights are trained."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=r,
        lora_alpha=lora_alpha,
        lora_dropout=lora_dropout,
        target_modules=LAYERS[layers],
        task_type="CAUSAL_LM",
    )
    adapted = get_peft_model(network, config)
    if network.is_gradient_checkpointing:
        adapted.enable_input_require_grads()
    return adapted


def decayed(network: "nn.Module", weight_decay: float) -> list[dict[str, Any]]:
    """Return the trained weights in two groups for an optimizer: biases and norms do not decay."""
    constant: dict[str, Any] = {"params": [], "weight_decay": 0.0}
    decaying: dict[str, Any] = {"params": [], "weight_decay": weight_decay}
    for parameter in network.parameters():
        if parameter.requires_grad:
            # ZeRO-3 partitions a weight and keeps its shape in `ds_shape`.
            dimensions = len(getattr(parameter, "ds_shape", parameter.shape))
            group = decaying if dimensions >= 2 else constant  # biases and norms are vectors
            group["params"].append(parameter)
    return [constant, decaying]

"""Weights of a network that are trained (its language side, or an adapter), and their decay."""

import re
from typing import TYPE_CHECKING, Any, Literal

from harness.errors import UsageError

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import nn
    from transformers import PreTrainedModel

LINEAR = r"((q|k|v|o|qkv|gate|up|gate_up|down)_proj|linear_attn\.(in_proj_\w+|out_proj))"
"""Linear layers of a language model; the second half are Qwen3.5's layers with a state."""
MERGER = "merger"
TOWER = r"(visual|vision_tower|vision_model|vision_encoder|audio_tower|audio_encoder)\."
"""Towers that read images and sounds, by the names that transformers gives them."""
LAYERS = {
    "language": rf"(?!.*({TOWER}|projector\.)).*\.{LINEAR}",
    "all": rf".*(language_model.*\.{LINEAR}"
    rf"|{TOWER}(?!.*{MERGER}).*\.(qkv|proj|out_proj|fc1|fc2|linear_fc1|linear_fc2|{LINEAR}))",
}
"""Linear layers that an adapter is put on, as a pattern of their names."""


def is_of_tower(name: str) -> bool:
    """Return True for a weight of a tower, whose features the language model is given.

    >>> is_of_tower("model.vision_tower.encoder.layers.0.self_attn.q_proj.weight")
    True
    """
    return re.search(TOWER, name) is not None


def is_language(name: str) -> bool:
    """Return True for a weight of a language model's linear layers, or of an adapter on one.

    >>> is_language("model.language_model.layers.0.mlp.up_proj.weight")
    True
    >>> is_language("model.vision_tower.encoder.layers.0.self_attn.q_proj.weight")
    False
    """
    return re.match(f"{LAYERS['language']}\\.", name) is not None


def freeze_vision(network: "PreTrainedModel") -> None:
    """Leave the vision tower as it is.

    The layers that merge its patches into the language model's space are of the language side, and
    are trained (Qwen2.5-VL's `visual.merger`, Qwen3-VL's deep ones too).
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
    """Return the network with a new LoRA adapter, which alone is trained."""
    from peft import LoraConfig, get_peft_model

    chosen = LoraConfig(
        r=r,
        lora_alpha=lora_alpha,
        lora_dropout=lora_dropout,
        target_modules=LAYERS[layers],
        task_type="CAUSAL_LM",
    )
    adapted = get_peft_model(network, chosen)
    if network.is_gradient_checkpointing:
        adapted.enable_input_require_grads()
    return adapted


def decayed(network: "nn.Module", weight_decay: float) -> list[dict[str, Any]]:
    """Return the trained weights in two groups: matrices decay, biases and norms do not."""
    groups: list[dict[str, Any]] = [
        {"params": [], "weight_decay": 0.0},
        {"params": [], "weight_decay": weight_decay},
    ]
    for parameter in network.parameters():
        if parameter.requires_grad:  # of what ZeRO-3 has spread, the shape says nothing
            groups[len(getattr(parameter, "ds_shape", parameter.shape)) >= 2]["params"].append(
                parameter
            )
    return groups

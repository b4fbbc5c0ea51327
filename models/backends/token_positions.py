"""Compute positions of prompts' tokens, for networks whose batches may be split and joined by rows.

Continuous batching and shared prompts need the positions that `generate` would give each row.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, Qwen2VLModel

SUPPORTED = frozenset({"qwen2_vl", "qwen2_5_vl", "qwen3_vl"})
"""Vision-language architectures with full attention over one growing cache."""
TEXT_ALONE = frozenset({"llama", "qwen2", "qwen3"})
"""Such architectures that read text alone: a position is the number of tokens before."""


def supports_continuous_batching(network: "PreTrainedModel", model_type: str) -> bool:
    """Return True if batches of this network may be split into rows and joined."""
    text = network.config.get_text_config()
    has_sliding_window = getattr(text, "use_sliding_window", False)
    reads_images = model_type in SUPPORTED and _rope_module(network) is not None
    return (reads_images or model_type in TEXT_ALONE) and not has_sliding_window


def _rope_module(network: "PreTrainedModel") -> "Qwen2VLModel | None":
    """Return the module, wrapped or not, that computes positions of images; None without one."""
    return next(
        (module for module in network.modules() if hasattr(type(module), "get_rope_index")), None
    )


def token_positions(network: "PreTrainedModel", inputs: Mapping[str, "Tensor"]) -> "Tensor":
    """Return positions of prompts' tokens (4 × rows × length): in text, time, height and width.

    They equal those of `generate` for the processor's tensors `inputs`, padded on the left. For a
    network of text alone only the first is returned (1 × rows × length). The network's state is not
    changed, because another thread may be using it.
    """
    import torch

    mask: Tensor = inputs["attention_mask"]
    text = (mask.long().cumsum(dim=1) - 1).clamp(min=0)[None]
    if network.config.model_type in TEXT_ALONE:
        return text
    if not any(f"{media_type}_grid_thw" in inputs for media_type in ("image", "video")):
        return text.expand(4, -1, -1)
    rope = _rope_module(network)
    assert rope is not None, "supports_continuous_batching looked for it"
    space, _ = rope.get_rope_index(**inputs)
    return torch.cat([text, space])


def positions_as_read(network: "PreTrainedModel", positions: "Tensor") -> "Tensor":
    """Return `token_positions` as the network takes them: rows × length for text alone."""
    return positions[0] if network.config.model_type in TEXT_ALONE else positions

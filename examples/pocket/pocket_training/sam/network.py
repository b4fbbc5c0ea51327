"""pocket-sam's network: the real SAM 2 architecture, small, and its files."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.models.backends.loading import no_bars
from harness.models.backends.torchvision_cpu import ensure_torchvision
from pocket_training.sam.initial_weights import begin

if TYPE_CHECKING:
    from transformers import Sam2VideoModel, Sam2VideoProcessor

STRIDE = 16
"""Pixels of the network's image along one cell of its coarsest map."""

MEMORY_WIDTH = 64  # transformers' memory attention takes no other, and pointers are cut to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Sizes; `Sam2VideoConfig` documents each one."""

    side: int = 192
    """Images are squashed to a square of this many pixels."""
    widths: tuple[int, ...] = (32, 64, 96, 128)
    blocks: tuple[int, ...] = (1, 2, 3, 1)
    heads: tuple[int, ...] = (1, 2, 4, 4)
    windows: tuple[int, ...] = (8, 4, 12, 6)
    unwindowed: tuple[int, ...] = (4, 5)
    hidden: int = 128
    decoder_heads: int = 4
    memory_layers: int = 2
    memories: int = 4
    """Frames that are remembered at once: the one that is given, and the last three."""


def make_network(sizes: Architecture, *, seed: int) -> "Sam2VideoModel":
    """A Sam2VideoModel with random weights, in evaluation mode (it has no dropout)."""
    ensure_torchvision()
    import torch
    from transformers import Sam2VideoConfig, Sam2VideoModel

    torch.manual_seed(seed)
    network = Sam2VideoModel(Sam2VideoConfig(**_configuration(sizes)))
    begin(network)
    return network.eval()


def make_processor(side: int) -> "Sam2VideoProcessor":
    """The Sam2VideoProcessor for images of side × side pixels; it makes still images too."""
    ensure_torchvision()
    from transformers import Sam2ImageProcessor, Sam2VideoProcessor, Sam2VideoVideoProcessor

    size, masks = ({"height": pixels, "width": pixels} for pixels in (side, side // 4))
    return Sam2VideoProcessor(
        Sam2ImageProcessor(size=size, mask_size=masks),
        Sam2VideoVideoProcessor(size=size),
        target_size=side,
    )


def save(network: "Sam2VideoModel", processor: "Sam2VideoProcessor", folder: Path) -> None:
    """Write the checkpoint that Sam2Model and Sam2VideoModel load."""
    with no_bars():
        network.save_pretrained(folder)
    processor.save_pretrained(folder)


def _configuration(sizes: Architecture) -> dict[str, object]:
    side, hidden = sizes.side, sizes.hidden
    backbone = {
        "model_type": "sam2_hiera_det_model",
        "image_size": [side, side],
        "hidden_size": sizes.widths[0],
        "num_attention_heads": sizes.heads[0],
        "embed_dim_per_stage": list(sizes.widths),
        "blocks_per_stage": list(sizes.blocks),
        "num_attention_heads_per_stage": list(sizes.heads),
        "window_size_per_stage": list(sizes.windows),
        "global_attention_blocks": list(sizes.unwindowed),
        "window_positional_embedding_background_size": [side // 32, side // 32],
    }
    return {
        "vision_config": {
            "model_type": "sam2_vision_model",
            "backbone_config": backbone,
            "backbone_channel_list": list(reversed(sizes.widths)),
            "backbone_feature_sizes": [[side // stride] * 2 for stride in (4, 8, 16)],
            "fpn_hidden_size": hidden,
        },
        "prompt_encoder_config": {
            "hidden_size": hidden,
            "image_size": side,
            "patch_size": STRIDE,
        },
        "mask_decoder_config": {
            "hidden_size": hidden,
            "mlp_dim": 2 * hidden,
            "num_hidden_layers": 2,
            "num_attention_heads": sizes.decoder_heads,
            "iou_head_hidden_dim": hidden,
        },
        "image_size": side,
        "num_maskmem": sizes.memories,
        "memory_attention_hidden_size": hidden,
        "memory_attention_num_layers": sizes.memory_layers,
        "memory_attention_feed_forward_hidden_size": 2 * hidden,
        "memory_attention_rope_feat_sizes": [side // STRIDE] * 2,
        "memory_attention_dropout": 0.0,
        "memory_attention_rope_dropout": 0.0,
        "memory_encoder_hidden_size": hidden,
        "memory_encoder_output_channels": MEMORY_WIDTH,
        "mask_downsampler_embed_dim": hidden,
        "memory_fuser_embed_dim": hidden,
        "memory_fuser_intermediate_dim": 2 * hidden,
    }

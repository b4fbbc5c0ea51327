"""pocket's network: the real Qwen2.5-VL architecture, small, and its files.

Two things differ from the released checkpoints besides the size. The base of the text's rotary
embedding is small, since over a grid of 6 × 6 tokens the released one would leave the sections of
height and width almost constant. And the vectors of the number tokens begin as Fourier features,
so that neighbouring numbers are alike from the start.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.models.backends.loading import no_bars
from harness.models.backends.torchvision_cpu import ensure_torchvision
from pocket_training.vlm import vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

PATCH, MERGE, FRAMES_A_PATCH = 14, 2, 2
GRID = vocabulary.CANVAS // (PATCH * MERGE)
"""Image tokens along each side of the canvas: 6."""

MAX_FRAMES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Sizes; `Qwen2_5_VLConfig` documents each one."""

    hidden_size: int = 128
    layers: int = 6
    heads: int = 4
    intermediate_size: int = 352
    vision_hidden_size: int = 128
    vision_layers: int = 4
    vision_heads: int = 4
    vision_intermediate_size: int = 256
    rope_theta: float = 1000.0
    mrope_section: tuple[int, int, int] = (2, 3, 11)
    vision_rope_theta: float = 100.0
    initializer_range: float = 0.05


def make_network(
    tokenizer: "PreTrainedTokenizerFast", sizes: Architecture, *, seed: int
) -> "PreTrainedModel":
    """A Qwen2_5_VLForConditionalGeneration with random weights."""
    ensure_torchvision()
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    named = tokenizer.convert_tokens_to_ids
    ends = {
        "bos_token_id": named(vocabulary.START),
        "eos_token_id": named(vocabulary.END),
        "pad_token_id": named(vocabulary.PAD),
    }
    config = Qwen2_5_VLConfig(
        text_config=_text_config(sizes, vocabulary_size=-(-len(tokenizer) // 16) * 16) | ends,
        vision_config=_vision_config(sizes),
        tie_word_embeddings=False,
        image_token_id=named(vocabulary.IMAGE),
        video_token_id=named(vocabulary.VIDEO),
        vision_start_token_id=named(vocabulary.VISION_START),
        vision_end_token_id=named(vocabulary.VISION_END),
        initializer_range=sizes.initializer_range,
    )
    torch.manual_seed(seed)
    network = Qwen2_5_VLForConditionalGeneration(config)
    for name, value in ends.items():
        setattr(network.generation_config, name, value)
    _alike_numbers(network, tokenizer, scale=sizes.initializer_range)
    return network


def _text_config(sizes: Architecture, *, vocabulary_size: int) -> dict[str, object]:
    return {
        "vocab_size": vocabulary_size,
        "hidden_size": sizes.hidden_size,
        "intermediate_size": sizes.intermediate_size,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.heads,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "use_sliding_window": False,
        "max_window_layers": sizes.layers,
        "initializer_range": sizes.initializer_range,
        "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": sizes.rope_theta,
            "mrope_section": list(sizes.mrope_section),
        },
    }


def _vision_config(sizes: Architecture) -> dict[str, object]:
    return {
        "depth": sizes.vision_layers,
        "hidden_size": sizes.vision_hidden_size,
        "intermediate_size": sizes.vision_intermediate_size,
        "num_heads": sizes.vision_heads,
        "out_hidden_size": sizes.hidden_size,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": FRAMES_A_PATCH,
        "tokens_per_second": 1,
        "window_size": vocabulary.CANVAS + PATCH * MERGE * 2,
        "fullatt_block_indexes": list(range(sizes.vision_layers)),
        "initializer_range": sizes.initializer_range,
        "rope_parameters": {"rope_type": "axial", "rope_theta": sizes.vision_rope_theta},
    }


def _alike_numbers(
    network: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", *, scale: float
) -> None:
    """Give the numbers' rows of both vocabularies waves of many lengths: near numbers are near."""
    import torch

    rows = torch.tensor(tokenizer.convert_tokens_to_ids(vocabulary.numbers()))
    width = network.config.text_config.hidden_size
    shortest, longest = 12.0, 2.5 * len(rows)
    lengths = torch.exp(torch.linspace(np.log(longest), np.log(shortest), width // 2))
    turns = torch.arange(len(rows))[:, None] * (2 * torch.pi / lengths)[None]
    waves = torch.cat([turns.sin(), turns.cos()], dim=1)[:, torch.randperm(width)] * (1.2 * scale)
    with torch.no_grad():
        network.model.language_model.embed_tokens.weight[rows] += waves
        head = network.lm_head.weight
        head[rows] = waves + 0.3 * head[rows]


def save_checkpoint(
    network: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    folder: Path,
) -> None:
    """Write a folder that AutoModelForImageTextToText and AutoProcessor load."""
    from transformers import Qwen2_5_VLProcessor, Qwen2VLImageProcessorPil, Qwen2VLVideoProcessor

    canvas = vocabulary.CANVAS**2
    patches: Mapping[str, object] = {
        "patch_size": PATCH,
        "merge_size": MERGE,
        "temporal_patch_size": FRAMES_A_PATCH,
    }
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessorPil(
            size={"shortest_edge": canvas, "longest_edge": canvas}, **patches
        ),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(
            size={"shortest_edge": canvas, "longest_edge": canvas},
            do_sample_frames=False,
            **patches,
        ),
        chat_template=vocabulary.chat_template(),
    )
    with no_bars():
        network.save_pretrained(folder)
    processor.save_pretrained(folder)

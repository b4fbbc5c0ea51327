"""pocket's network: the real Qwen2.5-VL architecture, small, and its files.

Sizes, tokenizer and processor are those of the shipped checkpoint. Two things differ from the
released ones besides the size. The base of the text's rotary embedding is small, since over a grid
of 6 × 6 tokens the released one would leave the sections of height and width almost constant. And
the vectors of the number tokens begin as Fourier features, so that neighbouring numbers are alike
from the start.
"""

import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from harness.models.backends.loading import no_bars
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.pocket import FOLDER
from pocket_training.vlm.vocabulary import number_ids

if TYPE_CHECKING:
    from transformers import PreTrainedModel, Qwen2_5_VLConfig

PROCESSOR = (
    "chat_template.jinja",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)


def shipped_config() -> "Qwen2_5_VLConfig":
    """Return the sizes of the shipped network."""
    ensure_torchvision()
    from transformers import Qwen2_5_VLConfig

    return Qwen2_5_VLConfig.from_pretrained(FOLDER)


@torch.no_grad()
def make_network(config: "Qwen2_5_VLConfig", *, seed: int) -> "PreTrainedModel":
    """A Qwen2_5_VLForConditionalGeneration with random weights."""
    from transformers import Qwen2_5_VLForConditionalGeneration

    torch.manual_seed(seed)
    network = Qwen2_5_VLForConditionalGeneration(config)
    # The numbers' rows of both vocabularies are waves of many lengths: near numbers are near.
    rows = torch.tensor(number_ids())
    width, scale = config.text_config.hidden_size, config.initializer_range
    shortest, longest = 12.0, 2.5 * len(rows)
    lengths = torch.exp(torch.linspace(math.log(longest), math.log(shortest), width // 2))
    turns = torch.arange(len(rows))[:, None] * (2 * torch.pi / lengths)[None]
    waves = torch.cat([turns.sin(), turns.cos()], dim=1)[:, torch.randperm(width)] * (1.2 * scale)
    network.model.language_model.embed_tokens.weight[rows] += waves
    head = network.lm_head.weight
    head[rows] = waves + 0.3 * head[rows]
    return network


def save_checkpoint(network: "PreTrainedModel", folder: Path) -> None:
    """Write a folder that AutoModelForImageTextToText and AutoProcessor load."""
    with no_bars():
        network.save_pretrained(folder)
    for name in PROCESSOR:
        shutil.copyfile(FOLDER / name, folder / name)

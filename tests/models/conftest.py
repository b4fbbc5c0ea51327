"""Tiny random networks in the real architectures, saved as checkpoints; made once a session."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import media
from harness.types import AnswerForm, Query, query_id

SPECIAL = (
    "<|im_start|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for c in m.content %}"
    "{% if c.type == 'text' %}{{ c.text }}{% else %}"
    "<|vision_start|><|{{ c.type }}_pad|><|vision_end|>{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


THINKING = (
    "{% if add_generation_prompt %}{{ '<think>\\n' }}"
    "{% if enable_thinking is false %}{{ '\\n</think>\\n\\n' }}{% endif %}{% endif %}"
)
"""End of Qwen3.5's template: thinking is on unless it is switched off."""


def prepared_torch() -> Any:
    """PyTorch with what the fixtures need."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from harness.models.backends.torchvision_cpu import ensure_torchvision

    ensure_torchvision()
    return torch


def tokenizer() -> Any:
    """One token a byte, and the special ones."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=list(SPECIAL),
        padding_side="left",
    )
    made.chat_template = TEMPLATE
    return made


def settings(words: Any, patch: int) -> dict[str, Any]:
    """What both architectures are given."""
    token = words.convert_tokens_to_ids
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    text = {
        "vocab_size": 320,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "rope_parameters": rope,
        "bos_token_id": token("<|im_start|>"),
        "eos_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
        "initializer_range": 0.3,
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 64,
        "patch_size": patch,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "initializer_range": 0.3,
    }
    ids = {f"{kind}_token_id": token(f"<|{kind}_pad|>") for kind in ("image", "video")}
    ids |= {f"vision_{end}_token_id": token(f"<|vision_{end}|>") for end in ("start", "end")}
    return {"text_config": text, "vision_config": vision, "tie_word_embeddings": False, **ids}


def save(
    folder: Path,
    *,
    network: Any,
    processor: type,
    video: type,
    patch: int,
    template: str = TEMPLATE,
) -> Path:
    """Save a network and its processor; images become at most 112 × 112 pixels."""
    from transformers import Qwen2VLImageProcessor

    words = tokenizer()
    limits = {"shortest_edge": 56 * 56, "longest_edge": 112 * 112}
    common = {"patch_size": patch, "merge_size": 2, "temporal_patch_size": 2}
    processor(
        image_processor=Qwen2VLImageProcessor(size=limits, **common),
        tokenizer=words,
        video_processor=video(
            size={**limits, "longest_edge": 8 * 112 * 112}, do_sample_frames=False, **common
        ),
        chat_template=template,
    ).save_pretrained(folder)
    network.generation_config.eos_token_id = [words.eos_token_id, words.pad_token_id]
    network.generation_config.pad_token_id = words.pad_token_id
    network.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder of a random Qwen2.5-VL."""
    torch = prepared_torch()
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLVideoProcessor,
    )

    torch.manual_seed(0)
    plain = settings(tokenizer(), 14)
    plain["text_config"] |= {"use_sliding_window": False, "max_window_layers": 2}
    plain["vision_config"] |= {"window_size": 112, "fullatt_block_indexes": [1]}
    network = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**plain))
    return save(
        tmp_path_factory.mktemp("checkpoints") / "tiny-qwen2.5-vl",
        network=network,
        processor=Qwen2_5_VLProcessor,
        video=Qwen2VLVideoProcessor,
        patch=14,
    )


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder of a random Qwen3-VL."""
    torch = prepared_torch()
    from transformers import (
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    torch.manual_seed(0)
    plain = settings(tokenizer(), 16)
    plain["text_config"] |= {"head_dim": 16}
    plain["text_config"]["rope_parameters"]["mrope_interleaved"] = True
    plain["vision_config"] |= {"num_position_embeddings": 256, "deepstack_visual_indexes": [0]}
    network = Qwen3VLForConditionalGeneration(Qwen3VLConfig(**plain))
    return save(
        tmp_path_factory.mktemp("checkpoints") / "tiny-qwen3-vl",
        network=network,
        processor=Qwen3VLProcessor,
        video=Qwen3VLVideoProcessor,
        patch=16,
    )


@pytest.fixture(scope="session")
def tiny_qwen35(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder of a random Qwen3.5: three layers of linear attention, and one of full.

    Its template opens the reasoning, or closes it at once where thinking is switched off.
    """
    torch = prepared_torch()
    from transformers import (
        Qwen3_5Config,
        Qwen3_5ForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    torch.manual_seed(4)
    plain = settings(tokenizer(), 16)
    plain["text_config"] |= {
        "head_dim": 16,
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
    }
    plain["text_config"]["rope_parameters"] |= {
        "mrope_interleaved": True,
        "partial_rotary_factor": 1.0,
    }
    plain["vision_config"] |= {"num_position_embeddings": 256}
    network = Qwen3_5ForConditionalGeneration(Qwen3_5Config(**plain))
    return save(
        tmp_path_factory.mktemp("checkpoints") / "tiny-qwen3.5",
        network=network,
        processor=Qwen3VLProcessor,
        video=Qwen3VLVideoProcessor,
        patch=16,
        template=TEMPLATE + THINKING,
    )


@pytest.fixture(scope="session")
def ask() -> Callable[..., Query]:
    """Makes queries about generated images and videos."""

    def made(
        form: AnswerForm | tuple[AnswerForm, ...] = AnswerForm.MASK,
        *,
        size: tuple[int, int] = (120, 90),
        frames: int = 1,
        text: str = "Where is the disc?",
        name: str = "",
        **given: Any,
    ) -> Query:
        images = [image(size, index) for index in range(frames)]
        shown = media.pixels(
            images, times=[index / 4 for index in range(frames)], is_video=frames > 1, id="test"
        )
        forms = form if isinstance(form, tuple) else (form,)
        return Query(id=query_id(name or text), text=text, media=(shown,), forms=forms, **given)

    return made


def image(size: tuple[int, int], step: int) -> Any:
    """A bright disc that moves to the right, on a dark gradient."""
    width, height = size
    rows, columns = np.mgrid[:height, :width]
    frame = np.stack([columns * 40 // width, rows * 40 // height, rows * 0 + 30], axis=2)
    radius = min(size) / 5
    centre = (width * (0.35 + 0.04 * step), height * 0.5)
    frame[(columns - centre[0]) ** 2 + (rows - centre[1]) ** 2 < radius**2] = (220, 180, 60)
    return frame.astype(np.uint8)

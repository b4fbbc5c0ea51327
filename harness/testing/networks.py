"""Tiny random networks of transformers' real classes, saved as checkpoints, for tests.

With such a network a test runs the same code as with downloaded weights: loading, templates, image
processors, coordinates, training and saving, in seconds on a CPU. Tokens are bytes.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast, ProcessorMixin


def tiny_checkpoint(family: str, folder: Path, *, seed: int = 0) -> Path:
    """Save a tiny random network of a family, with its processor; return the folder.

    Args:
        family: `qwen2_5_vl`, `qwen3_vl` or `qwen3_5`.
        folder: Folder of the checkpoint; it is created.
        seed: Seed of the weights; torch's generator is left as it was.

    Raises:
        UsageError: there is no such family.
        ImportError: transformers is not installed, or has no such class yet.
    """
    if family not in FAMILIES:
        raise UsageError("tiny_checkpoint", expected=", ".join(sorted(FAMILIES)), found=family)
    import torch

    from harness.models.backends.torchvision_cpu import ensure_torchvision

    ensure_torchvision()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return FAMILIES[family](folder)


def classes(family: str, *suffixes: str) -> tuple[Any, ...]:
    """Return classes of transformers; raise ImportError for one that this version lacks."""
    transformers = import_module("transformers")
    if missing := [suffix for suffix in suffixes if not hasattr(transformers, f"{family}{suffix}")]:
        raise ImportError(f"transformers {transformers.__version__} has no {family}{missing[0]}")
    return tuple(getattr(transformers, f"{family}{suffix}") for suffix in suffixes)


NETWORK_SUFFIXES = ("Config", "ForConditionalGeneration")
MEDIA_SUFFIXES = ("ImageProcessor", "VideoProcessor")
TEMPLATE = (
    "{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{% for c in m.content %}}"
    "{{% if c.type == 'text' %}}{{{{ c.text }}}}{{% else %}}{image}{{% endif %}}{{% endfor %}}"
    "<|im_end|>\n{{% endfor %}}{{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
)
"""Chat template; `{image}` is replaced by the family's tokens for a medium."""
TEXT_SETTINGS = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "initializer_range": 0.3,
}
VISION_SETTINGS = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 56,
    "patch_size": 14,
    "initializer_range": 0.3,
}
ROPE_SETTINGS = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}


def byte_tokenizer(*marks: str, **named: str) -> "PreTrainedTokenizerFast":
    """Return a tokenizer of one token a byte, the marks of a turn's end, and special tokens.

    Special tokens are `marks`, or with `named` those by their attributes in transformers.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: index for index, letter in enumerate(letters)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=named or list(marks),
        padding_side="left",
        **({"bos_token": "<|im_start|>"} if named else {}),
    )


def save(folder: Path, network: "PreTrainedModel", processor: "ProcessorMixin") -> Path:
    """Save a network with its processor and the tokens that end a response; return the folder."""
    tokenizer = processor.tokenizer
    network.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    network.generation_config.pad_token_id = tokenizer.pad_token_id
    network.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def text_settings(tokenizer: "PreTrainedTokenizerFast", **others: object) -> dict[str, object]:
    """Return settings of a language model for a tokenizer; `others` override them."""
    ends = ("bos_token_id", "eos_token_id", "pad_token_id")
    ids = {end: getattr(tokenizer, end) for end in ends}
    return {**TEXT_SETTINGS, "vocab_size": 320, **ids, **others}


QWEN_TEMPLATE = TEMPLATE.format(image="<|vision_start|><|{{ c.type }}_pad|><|vision_end|>")
THINKING_TEMPLATE = (
    "{% if add_generation_prompt %}{{ '<think>\\n' }}"
    "{% if enable_thinking is false %}{{ '\\n</think>\\n\\n' }}{% endif %}{% endif %}"
)
"""End of Qwen3.5's template: thinking is on unless it is switched off."""


def _qwen_tokenizer() -> "PreTrainedTokenizerFast":
    marks = ("vision_start", "vision_end", "image_pad", "video_pad")
    tokenizer = byte_tokenizer("<|im_start|>", *(f"<|{mark}|>" for mark in marks))
    tokenizer.chat_template = QWEN_TEMPLATE
    return tokenizer


def _qwen(
    folder: Path,
    *,
    prefix: str,
    patch: int,
    text: dict[str, object],
    rope: dict[str, object],
    vision: dict[str, object],
    processor: str = "Qwen3VL",
    video: str = "Qwen3VL",
    template: str = QWEN_TEMPLATE,
) -> Path:
    """Save a network of a Qwen class; its processor resizes images to at most 112 × 112 pixels."""
    config_class, network_class = classes(prefix, *NETWORK_SUFFIXES)
    (processor_class,) = classes(processor, "Processor")
    (video_processor_class,) = classes(video, "VideoProcessor")
    (image_processor_class,) = classes("Qwen2VL", "ImageProcessor")
    tokenizer = _qwen_tokenizer()
    token = tokenizer.convert_tokens_to_ids
    ids = {f"{medium}_token_id": token(f"<|{medium}_pad|>") for medium in ("image", "video")}
    ids |= {f"vision_{end}_token_id": token(f"<|vision_{end}|>") for end in ("start", "end")}
    of_text = text_settings(tokenizer, bos_token_id=token("<|im_start|>"))
    of_text["rope_parameters"] = {**ROPE_SETTINGS, **rope}
    del of_text["head_dim"]  # Qwen2.5-VL's configuration has no such setting
    model = network_class(
        config_class(
            text_config={**of_text, **text},
            vision_config={
                **{key: VISION_SETTINGS[key] for key in ("hidden_size", "intermediate_size")},
                "initializer_range": 0.3,
                "depth": 2,
                "num_heads": 2,
                "out_hidden_size": 64,
                "patch_size": patch,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
                **vision,
            },
            tie_word_embeddings=False,
            **ids,
        )
    )
    limits = {"shortest_edge": 56 * 56, "longest_edge": 112 * 112}
    common = {"patch_size": patch, "merge_size": 2, "temporal_patch_size": 2}
    many = {**limits, "longest_edge": 8 * 112 * 112}
    inputs = processor_class(
        image_processor=image_processor_class(size=limits, **common),
        tokenizer=tokenizer,
        video_processor=video_processor_class(size=many, do_sample_frames=False, **common),
        chat_template=template,
    )
    return save(folder, model, inputs)


FAMILIES: Mapping[str, Callable[[Path], Path]] = MappingProxyType(
    {
        "qwen2_5_vl": partial(
            _qwen,
            prefix="Qwen2_5_VL",
            patch=14,
            text={"use_sliding_window": False, "max_window_layers": 2},
            rope={},
            vision={"window_size": 112, "fullatt_block_indexes": [1]},
            processor="Qwen2_5_VL",
            video="Qwen2VL",
        ),
        "qwen3_vl": partial(
            _qwen,
            prefix="Qwen3VL",
            patch=16,
            text={"head_dim": 16},
            rope={"mrope_interleaved": True},
            vision={"num_position_embeddings": 256, "deepstack_visual_indexes": [0]},
        ),
        # Three layers of linear attention, and one of full; its template opens the reasoning.
        "qwen3_5": partial(
            _qwen,
            prefix="Qwen3_5",
            patch=16,
            text={
                "head_dim": 16,
                "num_hidden_layers": 4,
                "layer_types": ["linear_attention"] * 3 + ["full_attention"],
                "linear_key_head_dim": 16,
                "linear_value_head_dim": 16,
                "linear_num_key_heads": 2,
                "linear_num_value_heads": 4,
            },
            rope={"mrope_interleaved": True, "partial_rotary_factor": 1.0},
            vision={"num_position_embeddings": 256},
            template=QWEN_TEMPLATE + THINKING_TEMPLATE,
        ),
    }
)

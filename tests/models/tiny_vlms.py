"""Tiny random networks of other families in their real classes, saved as checkpoints."""

from pathlib import Path
from typing import Any

TEMPLATE = (
    "{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{% for c in m.content %}}"
    "{{% if c.type == 'text' %}}{{{{ c.text }}}}{{% else %}}{image}{{% endif %}}{{% endfor %}}"
    "<|im_end|>\n{{% endfor %}}{{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
)
TEXT = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "initializer_range": 0.3,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 56,
    "patch_size": 14,
    "initializer_range": 0.3,
}


def tokenizer(**special: str) -> Any:
    """One token a byte, the special ones under their names, and the ends of turns."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
        extra_special_tokens=special,
    )


def saved(folder: Path, network: Any, processor: Any) -> Path:
    """A checkpoint folder of a network and its processor."""
    words = processor.tokenizer
    network.generation_config.eos_token_id = [words.eos_token_id, words.pad_token_id]
    network.generation_config.pad_token_id = words.pad_token_id
    network.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def text_of(words: Any, **more: Any) -> dict[str, Any]:
    """Settings of a language model with these tokens."""
    ends = ("bos_token_id", "eos_token_id", "pad_token_id")
    return {**TEXT, "vocab_size": 320, **{one: getattr(words, one) for one in ends}, **more}


def internvl(folder: Path) -> Path:
    """InternVL3.5, whose language model is Qwen3."""
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
    )

    words = tokenizer(
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )
    size = {"height": 56, "width": 56}
    processor = InternVLProcessor(
        GotOcr2ImageProcessor(size=size, crop_to_patches=True, max_patches=4),
        words,
        InternVLVideoProcessor(size=size),
        image_seq_length=4,
        chat_template=TEMPLATE.format(image="<IMG_CONTEXT>\n"),
    )
    config = InternVLConfig(
        vision_config={**VISION, "image_size": (56, 56), "patch_size": (14, 14)},
        text_config={"model_type": "qwen3", **text_of(words)},
        image_token_id=words.context_image_token_id,
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    return saved(folder, InternVLForConditionalGeneration(config), processor)


def glm4v(folder: Path) -> Path:
    """GLM-4.1V, of which GLM-4.5V and 4.6V are the larger ones."""
    from transformers import (
        Glm4vConfig,
        Glm4vForConditionalGeneration,
        Glm4vImageProcessor,
        Glm4vProcessor,
        Glm4vVideoProcessor,
    )

    marks = {
        f"{kind}_{end}_token": f"<|{word}_of_{kind}|>"
        for kind in ("image", "video")
        for end, word in (("start", "begin"), ("end", "end"))
    }
    words = tokenizer(image_token="<|image|>", video_token="<|video|>", **marks)
    limits = {"shortest_edge": 56 * 56, "longest_edge": 112 * 112}
    processor = Glm4vProcessor(
        Glm4vImageProcessor(size=limits),
        words,
        Glm4vVideoProcessor(size=limits),
        chat_template=TEMPLATE.format(image="<|begin_of_image|><|image|><|end_of_image|>"),
    )
    text = text_of(words)
    del text["head_dim"]
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    config = Glm4vConfig(
        text_config={**text, "rope_parameters": {**rope, "partial_rotary_factor": 1.0}},
        vision_config={
            **{key: VISION[key] for key in ("hidden_size", "image_size", "patch_size")},
            "depth": 2,
            "num_heads": 2,
            "intermediate_size": 48,
            "out_hidden_size": 64,
            "initializer_range": 0.3,
        },
        **{f"{kind}_token_id": getattr(words, f"{kind}_token_id") for kind in ("image", "video")},
        **{f"{name}_id": getattr(words, f"{name}_id") for name in marks},
    )
    return saved(folder, Glm4vForConditionalGeneration(config), processor)


def gemma3(folder: Path) -> Path:
    """Gemma 3."""
    from transformers import (
        Gemma3Config,
        Gemma3ForConditionalGeneration,
        Gemma3ImageProcessor,
        Gemma3Processor,
    )

    words = tokenizer(
        boi_token="<start_of_image>",
        eoi_token="<end_of_image>",
        image_token="<image_soft_token>",
    )
    processor = Gemma3Processor(
        Gemma3ImageProcessor(size={"height": 56, "width": 56}),
        words,
        chat_template=TEMPLATE.format(image="<start_of_image>"),
        image_seq_length=4,
    )
    config = Gemma3Config(
        text_config=text_of(words, sliding_window=64, query_pre_attn_scalar=16),
        vision_config={**VISION, "vision_use_head": False},
        mm_tokens_per_image=4,
        boi_token_index=words.boi_token_id,
        eoi_token_index=words.eoi_token_id,
        image_token_index=words.image_token_id,
    )
    return saved(folder, Gemma3ForConditionalGeneration(config), processor)


def molmo2(folder: Path) -> Path:
    """Molmo2."""
    from transformers import (
        Molmo2Config,
        Molmo2ForConditionalGeneration,
        Molmo2ImageProcessor,
        Molmo2Processor,
        Molmo2VideoProcessor,
    )

    marks = ("im_patch", "im_col", "im_start", "low_res_im_start", "frame_start", "im_end")
    words = tokenizer(
        image_token="<|image|>",
        video_token="<|video|>",
        **{mark: f"<{mark}>" for mark in (*marks, "frame_end", "im_low")},
    )
    processor = Molmo2Processor(
        Molmo2ImageProcessor(size={"height": 56, "width": 56}, max_crops=2, overlap_margins=[1, 1]),
        Molmo2VideoProcessor(size={"height": 56, "width": 56}),
        words,
        chat_template=TEMPLATE.format(image="<|image|>"),
    )
    number = words.convert_tokens_to_ids
    vision = {key: value for key, value in VISION.items() if key != "image_size"}
    config = Molmo2Config(
        text_config={**text_of(words), "additional_vocab_size": 16},
        vision_config={
            **vision,
            "image_size": [56, 56],
            "num_position_embeddings": 16,
            "num_key_value_heads": 2,
            "head_dim": 16,
        },
        adapter_config={
            "vision_feature_layer": [-1, -2],
            "hidden_size": 32,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "intermediate_size": 48,
            "text_hidden_size": 64,
            "initializer_range": 0.3,
        },
        image_start_token_id=number("<im_start>"),
        low_res_image_start_token_id=number("<low_res_im_start>"),
        image_end_token_id=number("<im_end>"),
        image_patch_id=number("<im_patch>"),
        frame_start_token_id=number("<frame_start>"),
        frame_end_token_id=number("<frame_end>"),
    )
    return saved(folder, Molmo2ForConditionalGeneration(config), processor)


def paligemma(folder: Path) -> Path:
    """PaliGemma 2, whose language model is Gemma 2; it has no chat template."""
    from transformers import (
        PaliGemmaConfig,
        PaliGemmaForConditionalGeneration,
        PaliGemmaProcessor,
        SiglipImageProcessor,
    )

    words = tokenizer(image_token="<image>")
    pixels = SiglipImageProcessor(size={"height": 56, "width": 56})
    pixels.image_seq_length = 16
    processor = PaliGemmaProcessor(pixels, words)
    text = text_of(words, model_type="gemma2", query_pre_attn_scalar=16, sliding_window=64)
    config = PaliGemmaConfig(
        text_config={**text, "vocab_size": len(words)},
        vision_config={**VISION, "projection_dim": 64, "vision_use_head": False},
        image_token_index=words.image_token_id,
        projection_dim=64,
        hidden_size=64,
    )
    return saved(folder, PaliGemmaForConditionalGeneration(config), processor)


FAMILIES = {
    "internvl3_5": internvl,
    "glm_v": glm4v,
    "gemma": gemma3,
    "molmo2": molmo2,
    "paligemma2": paligemma,
}
"""What builds a network, by its dialect."""

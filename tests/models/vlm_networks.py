"""Tiny random networks of the dialects of `vlm`, in the real classes of transformers."""

from pathlib import Path

import torch

from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.testing.networks import (
    MEDIA_SUFFIXES,
    NETWORK_SUFFIXES,
    ROPE_SETTINGS,
    TEMPLATE,
    VISION_SETTINGS,
    byte_tokenizer,
    classes,
    save,
    text_settings,
)


def tiny_network(dialect: str, folder: Path) -> Path:
    """Save a network of a dialect, with its processor; returns the folder."""
    ensure_torchvision()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return DIALECTS[dialect](folder)


def _internvl(folder: Path) -> Path:
    """InternVL3.5, whose language model is Qwen3."""
    config, network, process, videos = classes(
        "InternVL", *NETWORK_SUFFIXES, "Processor", "VideoProcessor"
    )
    (images,) = classes("GotOcr2", "ImageProcessor")

    words = byte_tokenizer(
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )
    size = {"height": 56, "width": 56}
    processor = process(
        images(size=size, crop_to_patches=True, max_patches=4),
        words,
        videos(size=size),
        image_seq_length=4,
        chat_template=TEMPLATE.format(image="<IMG_CONTEXT>\n"),
    )
    made = config(
        vision_config={**VISION_SETTINGS, "image_size": (56, 56), "patch_size": (14, 14)},
        text_config={"model_type": "qwen3", **text_settings(words)},
        image_token_id=words.context_image_token_id,
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    return save(folder, network(made), processor)


def _glm4v(folder: Path) -> Path:
    """GLM-4.1V, of which GLM-4.5V and 4.6V are the larger ones."""
    config, network, process, images, videos = classes(
        "Glm4v", *NETWORK_SUFFIXES, "Processor", *MEDIA_SUFFIXES
    )

    marks = {
        f"{kind}_{end}_token": f"<|{word}_of_{kind}|>"
        for kind in ("image", "video")
        for end, word in (("start", "begin"), ("end", "end"))
    }
    words = byte_tokenizer(image_token="<|image|>", video_token="<|video|>", **marks)
    limits = {"shortest_edge": 56 * 56, "longest_edge": 112 * 112}
    processor = process(
        images(size=limits),
        words,
        videos(size=limits),
        chat_template=TEMPLATE.format(image="<|begin_of_image|><|image|><|end_of_image|>"),
    )
    text = text_settings(words)
    del text["head_dim"]
    made = config(
        text_config={**text, "rope_parameters": {**ROPE_SETTINGS, "partial_rotary_factor": 1.0}},
        vision_config={
            **{key: VISION_SETTINGS[key] for key in ("hidden_size", "image_size", "patch_size")},
            "depth": 2,
            "num_heads": 2,
            "intermediate_size": 48,
            "out_hidden_size": 64,
            "initializer_range": 0.3,
        },
        **{f"{kind}_token_id": getattr(words, f"{kind}_token_id") for kind in ("image", "video")},
        **{f"{name}_id": getattr(words, f"{name}_id") for name in marks},
    )
    return save(folder, network(made), processor)


def _gemma3(folder: Path) -> Path:
    """Gemma 3."""
    config, network, process, images = classes(
        "Gemma3", *NETWORK_SUFFIXES, "Processor", "ImageProcessor"
    )

    words = byte_tokenizer(
        boi_token="<start_of_image>",
        eoi_token="<end_of_image>",
        image_token="<image_soft_token>",
    )
    processor = process(
        images(size={"height": 56, "width": 56}),
        words,
        chat_template=TEMPLATE.format(image="<start_of_image>"),
        image_seq_length=4,
    )
    made = config(
        text_config=text_settings(words, sliding_window=64, query_pre_attn_scalar=16),
        vision_config={**VISION_SETTINGS, "vision_use_head": False},
        mm_tokens_per_image=4,
        boi_token_index=words.boi_token_id,
        eoi_token_index=words.eoi_token_id,
        image_token_index=words.image_token_id,
    )
    return save(folder, network(made), processor)


def _molmo2(folder: Path) -> Path:
    """Molmo2."""
    config, network, process, images, videos = classes(
        "Molmo2", *NETWORK_SUFFIXES, "Processor", *MEDIA_SUFFIXES
    )

    marks = ("im_patch", "im_col", "im_start", "low_res_im_start", "frame_start", "im_end")
    words = byte_tokenizer(
        image_token="<|image|>",
        video_token="<|video|>",
        **{mark: f"<{mark}>" for mark in (*marks, "frame_end", "im_low")},
    )
    processor = process(
        images(size={"height": 56, "width": 56}, max_crops=2, overlap_margins=[1, 1]),
        videos(size={"height": 56, "width": 56}),
        words,
        chat_template=TEMPLATE.format(image="<|image|>"),
    )
    number = words.convert_tokens_to_ids
    vision = {key: value for key, value in VISION_SETTINGS.items() if key != "image_size"}
    made = config(
        text_config={**text_settings(words), "additional_vocab_size": 16},
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
    return save(folder, network(made), processor)


def _paligemma(folder: Path) -> Path:
    """PaliGemma 2, whose language model is Gemma 2; it has no chat template."""
    config, network, process = classes("PaliGemma", *NETWORK_SUFFIXES, "Processor")
    (images,) = classes("Siglip", "ImageProcessor")

    words = byte_tokenizer(image_token="<image>")
    pixels = images(size={"height": 56, "width": 56})
    pixels.image_seq_length = 16
    processor = process(pixels, words)
    text = text_settings(words, model_type="gemma2", query_pre_attn_scalar=16, sliding_window=64)
    made = config(
        text_config={**text, "vocab_size": len(words)},
        vision_config={**VISION_SETTINGS, "projection_dim": 64, "vision_use_head": False},
        image_token_index=words.image_token_id,
        projection_dim=64,
        hidden_size=64,
    )
    return save(folder, network(made), processor)


def _llava_onevision(folder: Path) -> Path:
    """LLaVA-OneVision, whose language model is Qwen2."""
    config, network, process, *media = classes(
        "LlavaOnevision", *NETWORK_SUFFIXES, "Processor", "ImageProcessor", "VideoProcessor"
    )
    words = byte_tokenizer("<|im_start|>", "<image>", "<video>")
    size = {"height": 56, "width": 56}
    images, videos = (kind(size=size) for kind in media)
    images.image_grid_pinpoints = [[56, 112], [112, 56], [112, 112]]
    processor = process(
        images,
        words,
        videos,
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        chat_template=TEMPLATE.format(image="<{{ c.type }}>\n"),
    )
    made = config(
        text_config={"model_type": "qwen2", **text_settings(words)},
        vision_config={
            **VISION_SETTINGS,
            "model_type": "siglip_vision_model",
            "vision_use_head": False,
        },
        image_grid_pinpoints=images.image_grid_pinpoints,
        image_token_index=words.convert_tokens_to_ids("<image>"),
        video_token_index=words.convert_tokens_to_ids("<video>"),
    )
    return save(folder, network(made), processor)


DIALECTS = {
    "llava_onevision": _llava_onevision,
    "internvl3_5": _internvl,
    "glm_v": _glm4v,
    "gemma": _gemma3,
    "molmo2": _molmo2,
    "paligemma2": _paligemma,
}

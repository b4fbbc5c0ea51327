"""Tiny random networks with the processors, sizes and chat templates of vendors' checkpoints.

Chat templates are written anew: they give the texts that the published ones give for one turn.
"""

from pathlib import Path
from typing import NamedTuple

from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.testing.networks import (
    MEDIA_SUFFIXES,
    NETWORK_SUFFIXES,
    ROPE_SETTINGS,
    VISION_SETTINGS,
    byte_tokenizer,
    classes,
    save,
    text_settings,
    tiny_checkpoint,
)

IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CHATML = (
    "{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{% for c in m.content %}}"
    "{{% if 'text' in c %}}{{{{ c.text }}}}{{% elif c.type == 'image' %}}{image}"
    "{{% else %}}{video}{{% endif %}}{{% endfor %}}<|im_end|>\n{{% endfor %}}"
    "{{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
)


def internvl(folder: Path) -> Path:
    """InternVL3.5: tiles of 448 pixels with 256 tokens."""
    config, network, process, videos = classes(
        "InternVL", *NETWORK_SUFFIXES, "Processor", "VideoProcessor"
    )
    (images,) = classes("GotOcr2", "ImageProcessor")
    words = byte_tokenizer(
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
        ref_start="<ref>",
        ref_end="</ref>",
    )
    size = {"height": 448, "width": 448}
    processor = process(
        images(size=size, crop_to_patches=True, max_patches=12, **IMAGENET),
        words,
        videos(size=size, **IMAGENET),
        image_seq_length=256,
        chat_template=CHATML.format(image="<IMG_CONTEXT>\n", video="<video>\n"),
    )
    settings = config(
        vision_config={**VISION_SETTINGS, "image_size": (448, 448), "patch_size": (14, 14)},
        text_config={"model_type": "qwen3", **text_settings(words)},
        image_token_id=words.context_image_token_id,
        image_seq_length=256,
        tie_word_embeddings=False,
    )
    return save(folder, network(settings), processor)


def llava_onevision(folder: Path) -> Path:
    """LLaVA-OneVision: frames of 384 pixels with 196 tokens, and one token after them."""
    config, network, process, *media = classes(
        "LlavaOnevision", *NETWORK_SUFFIXES, "Processor", "ImageProcessor", "VideoProcessor"
    )
    words = byte_tokenizer("<|im_start|>", "<image>", "<video>")
    half = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    images, videos = (kind(size={"height": 384, "width": 384}, **half) for kind in media)
    processor = process(
        images,
        words,
        videos,
        num_image_tokens=729,
        vision_feature_select_strategy="full",
        chat_template=CHATML.format(image="<image>\n", video="<video>\n"),
    )
    settings = config(
        vision_config={
            **VISION_SETTINGS,
            "model_type": "siglip_vision_model",
            "image_size": 384,
            "vision_use_head": False,
        },
        text_config={"model_type": "qwen2", **text_settings(words)},
        image_token_index=words.convert_tokens_to_ids("<image>"),
        video_token_index=words.convert_tokens_to_ids("<video>"),
    )
    return save(folder, network(settings), processor)


def qwen3_vl(folder: Path) -> Path:
    """Qwen3-VL: patches of 16 pixels, and the limits of its checkpoints for a whole clip."""
    return _qwen(folder, "qwen3_vl", frames=Limits(4096, 25_165_824), images=Limits(65_536, 2**24))


def qwen2_5_vl(folder: Path) -> Path:
    """Qwen2.5-VL: patches of 14 pixels, and the limits of its checkpoints for each frame."""
    limits = Limits(3136, 12_845_056)
    system = (
        "{% if messages[0].role != 'system' %}<|im_start|>system\n"
        "You are a helpful assistant.<|im_end|>\n{% endif %}"
    )
    return _qwen(folder, "qwen2_5_vl", frames=limits, images=limits, system=system)


class Limits(NamedTuple):
    """Smallest and largest number of pixels."""

    shortest_edge: int
    longest_edge: int


def _qwen(folder: Path, family: str, *, frames: Limits, images: Limits, system: str = "") -> Path:
    """Save a network of Qwen's with the limits of a checkpoint."""
    ensure_torchvision()
    from transformers import AutoProcessor

    processor = AutoProcessor.from_pretrained(tiny_checkpoint(family, folder))
    processor.image_processor.size = images._asdict()
    processor.video_processor.size = frames._asdict()
    pad = "<|vision_start|><|{kind}_pad|><|vision_end|>"
    processor.chat_template = system + CHATML.format(
        image=pad.format(kind="image"), video=pad.format(kind="video")
    )
    processor.save_pretrained(folder)
    return folder


def glm_v(folder: Path) -> Path:
    """GLM-4.1V, whose processor GLM-4.5V has too."""
    config, network, process, images, videos = classes(
        "Glm4v", *NETWORK_SUFFIXES, "Processor", *MEDIA_SUFFIXES
    )
    marks = {
        f"{kind}_{end}_token": f"<|{word}_of_{kind}|>"
        for kind in ("image", "video")
        for end, word in (("start", "begin"), ("end", "end"))
    }
    words = byte_tokenizer(image_token="<|image|>", video_token="<|video|>", **marks)
    place = "<|begin_of_{kind}|><|{kind}|><|end_of_{kind}|>"
    template = CHATML.format(image=place.format(kind="image"), video=place.format(kind="video"))
    processor = process(images(), words, videos(), chat_template=template)
    text = text_settings(words)
    del text["head_dim"]
    settings = config(
        text_config={**text, "rope_parameters": {**ROPE_SETTINGS, "partial_rotary_factor": 1.0}},
        vision_config={
            **{key: VISION_SETTINGS[key] for key in ("hidden_size", "image_size", "patch_size")},
            **{"depth": 2, "num_heads": 2, "intermediate_size": 48, "out_hidden_size": 64},
        },
        **{f"{kind}_token_id": getattr(words, f"{kind}_token_id") for kind in ("image", "video")},
        **{f"{name}_id": getattr(words, f"{name}_id") for name in marks},
    )
    return save(folder, network(settings), processor)


def molmo2(folder: Path) -> Path:
    """Molmo2: frames of 378 pixels, of which 3 × 3 patches are a token."""
    config, network, process, images, videos = classes(
        "Molmo2", *NETWORK_SUFFIXES, "Processor", *MEDIA_SUFFIXES
    )
    marks = ("im_patch", "im_col", "im_start", "low_res_im_start", "frame_start", "im_end")
    words = byte_tokenizer(
        image_token="<|image|>",
        video_token="<|video|>",
        **{mark: f"<{mark}>" for mark in (*marks, "frame_end", "im_low")},
    )
    template = (
        "{% for m in messages %}{% for c in m.content %}{% if c.type != 'text' %}<|{{ c.type }}|>"
        "{% endif %}{% endfor %}{% endfor %}" + CHATML.format(image="", video="")
    )
    as_saved = {"do_rescale": True, "do_normalize": True, "do_convert_rgb": True}
    processor = process(images(), videos(**as_saved), words, chat_template=template)
    number = words.convert_tokens_to_ids
    vision = {key: value for key, value in VISION_SETTINGS.items() if key != "image_size"}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
    names = {
        "image_start": "im_start",
        "low_res_image_start": "low_res_im_start",
        "image_end": "im_end",
        "frame_start": "frame_start",
        "frame_end": "frame_end",
    }
    settings = config(
        text_config={**text_settings(words), "additional_vocab_size": 16},
        vision_config={
            **{**vision, **heads},
            **{"image_size": [378, 378], "num_position_embeddings": 729},
        },
        adapter_config={
            **{"vision_feature_layer": [-1, -2], "hidden_size": 32, **heads},
            **{"intermediate_size": 48, "text_hidden_size": 64},
        },
        **{f"{name}_token_id": number(f"<{mark}>") for name, mark in names.items()},
        image_patch_id=number("<im_patch>"),
    )
    return save(folder, network(settings), processor)

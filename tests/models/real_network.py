"""Random weights in the published configurations of Qwen2.5-VL, with Qwen's own vocabulary.

The vocabulary is that of the PyPI package `dashscope` (Apache-2.0; `pip install --no-deps
dashscope`), which is read as a file and never imported. Nothing here ships.
"""

import base64
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from harness.models.backends.torchvision_cpu import ensure_torchvision

SIZES = tomllib.loads(Path(__file__).with_name("real_sizes.toml").read_text("utf-8"))
SHARED = SIZES.pop("shared")
BLOCK = 2**22
"""Random numbers that fill the weights again and again: so many of their own take minutes."""
SPECIAL = [
    f"<|{name}|>"
    for name in (
        *("endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end", "box_start"),
        *("box_end", "quad_start", "quad_end", "vision_start", "vision_end", "vision_pad"),
        *("image_pad", "video_pad"),
    )
]
"""From 151643 on."""
END, PAD = 151645, 151643
TEMPLATE = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}<|im_start|>system\n"
    "You are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}"
    "{% if c['type'] == 'text' %}{{ c['text'] }}{% else %}<|vision_start|><|{{ c['type'] }}_pad|>"
    "<|vision_end|>{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def vocabulary() -> Path | None:
    """Return the file of Qwen's vocabulary; None where `dashscope` is not installed."""
    try:
        found = distribution("dashscope").locate_file("dashscope/resources/qwen.tiktoken")
    except PackageNotFoundError:
        return None
    return Path(str(found))


@cache
def tokenizer() -> Any:
    """Return Qwen2.5's tokenizer, from the ranks in the vocabulary."""
    from transformers import Qwen2Tokenizer
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    place = vocabulary()
    assert place is not None, "pip install --no-deps dashscope"
    letters = bytes_to_unicode()
    words: dict[str, int] = {}
    for line in place.read_bytes().splitlines():
        token, rank = line.split()
        words["".join(letters[byte] for byte in base64.b64decode(token))] = int(rank)
    merges: list[tuple[str, str]] = []
    for word in words:
        pairs = ((word[:cut], word[cut:]) for cut in range(1, len(word)))
        known = [pair for pair in pairs if pair[0] in words and pair[1] in words]
        merges += sorted(known, key=lambda pair: (words[pair[0]], words[pair[1]]))
    words |= {token: PAD + place for place, token in enumerate(SPECIAL)}
    return Qwen2Tokenizer(
        words,
        merges,
        eos_token="<|im_end|>",
        extra_special_tokens=SPECIAL,
        padding_side="left",
        chat_template=TEMPLATE,
    )


def meta(size: str) -> Any:
    """Return a network without memory, its shapes alone, of a size: 3B, 7B or tiny."""
    ensure_torchvision()
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    own = SIZES[size]
    parts = {name: {**SHARED[name], **own[name]} for name in ("text_config", "vision_config")}
    tied = own["tie_word_embeddings"]
    made = Qwen2_5_VLConfig(**{**SHARED, **parts}, tie_word_embeddings=tied)
    with torch.device("meta"):
        return Qwen2_5_VLForConditionalGeneration(made)


def save(size: str, folder: Path, *, max_pixels: int) -> Path:
    """Write a checkpoint of random bfloat16 weights with its processor; return the folder."""
    network = meta(size)
    import torch
    from safetensors.torch import save_file
    from transformers import Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    block = torch.randn(BLOCK, generator=torch.Generator().manual_seed(0)) * 0.02
    block = block.to(torch.bfloat16)
    tensors = {}
    for name, weight in network.state_dict().items():
        if name == "lm_head.weight" and SIZES[size]["tie_word_embeddings"]:
            continue
        if weight.ndim == 1:
            one = torch.full(weight.shape, float(not name.endswith("bias")), dtype=block.dtype)
        else:
            one = block.repeat(-(-weight.numel() // BLOCK))[: weight.numel()].view(weight.shape)
        tensors[name] = one.clone() if one._base is not None else one
    limits = {"shortest_edge": 3136, "longest_edge": max_pixels}
    Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=limits),
        tokenizer=tokenizer(),
        video_processor=Qwen2VLVideoProcessor(size=limits, do_sample_frames=False),
        chat_template=TEMPLATE,
    ).save_pretrained(folder)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    network.config.architectures = [type(network).__name__]
    network.config.dtype = "bfloat16"
    network.config.save_pretrained(folder)
    network.generation_config.eos_token_id = [END, PAD]
    network.generation_config.pad_token_id = PAD
    network.generation_config.save_pretrained(folder)
    return folder

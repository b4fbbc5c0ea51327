"""pocket's network: the real Qwen2.5-VL architecture, small, and its computation in training.

Sizes, tokenizer and processor are those of the shipped checkpoint. Two things differ from the
released ones besides the size. The base of the text's rotary embedding is small, since over a grid
of 6 × 6 tokens the released one would leave the sections of height and width almost constant. And
the vectors of the number tokens begin as Fourier features, so that neighbouring numbers are alike
from the start.

In training the modules are transformers', and so are the logits, but many small images are one
tensor, where transformers attends within one after the other: on a CPU several times as fast.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.image_utils import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen
from transformers.vision_utils import get_vision_position_ids

from harness.models.pocket import FOLDER
from pocket_training.vlm.batches import TOKENIZER, Batch
from pocket_training.vlm.views import CANVAS

PATCH = 14  # pixels along each side
NUMBERS = torch.tensor(TOKENIZER.convert_tokens_to_ids([str(n) for n in range(CANVAS + 1)]))
"""The tokens of 0 to 168, in this order."""
LOOKING = 2  # heads of the layer after the middle one whose attention is learned


class HiddenStates(NamedTuple):
    """Hidden states that the losses read."""

    image: Tensor  # images × image tokens × width: the vision tower's output
    patches: Tensor  # images × patches × width: before the merger, four patches for each token
    middle: Tensor  # rows × tokens × width: after the layer that heads read
    last: Tensor  # rows × tokens × width: input of the language-model head
    query: Tensor  # rows × 2 × tokens × head width: of two heads, in the layer after the middle
    key: Tensor  # their keys


@torch.no_grad()
def make_network(*, seed: int) -> PreTrainedModel:
    """A network as large as the shipped one with random weights."""
    torch.manual_seed(seed)
    config = Qwen2_5_VLConfig.from_pretrained(FOLDER)
    network = Qwen2_5_VLForConditionalGeneration(config)
    # The numbers' rows of both vocabularies are waves of many lengths: near numbers are near.
    width, scale = config.text_config.hidden_size, config.initializer_range
    shortest, longest = 12.0, 2.5 * len(NUMBERS)
    lengths = torch.exp(torch.linspace(math.log(longest), math.log(shortest), width // 2))
    turns = torch.arange(len(NUMBERS))[:, None] * (2 * torch.pi / lengths)[None]
    waves = torch.cat([turns.sin(), turns.cos()], dim=1)[:, torch.randperm(width)] * (1.2 * scale)
    network.model.language_model.embed_tokens.weight[NUMBERS] += waves
    head = network.lm_head.weight
    head[NUMBERS] = waves + 0.3 * head[NUMBERS]
    return network


def run_network(network: PreTrainedModel, batch: Batch, *, middle: int) -> HiddenStates:
    """States of a batch in the network; `middle` is the text layer that heads read."""
    image, seen_patches = encode_images(network, patches(batch["images"]))
    text, tokens = network.model.language_model, batch["tokens"]
    embedded = text.embed_tokens(tokens)
    shown = image[batch["owner"]].to(embedded.dtype)
    hidden = embedded.masked_scatter(batch["seen"][..., None], shown)
    turns = text.rotary_emb(hidden, batch["positions"])
    hole = torch.full((tokens.shape[1],) * 2, -1e4, dtype=hidden.dtype).triu(1)[None, None]
    states = [hidden]
    for layer in text.layers:
        states.append(layer(states[-1], attention_mask=hole, position_embeddings=turns))
    after = text.layers[middle + 1]
    attention, normed = after.self_attn, after.input_layernorm(states[middle + 1])
    query, key = (
        part(normed).unflatten(-1, (-1, attention.head_dim))[:, :, :LOOKING].transpose(1, 2)
        for part in (attention.q_proj, attention.k_proj)
    )
    query, key = qwen.apply_rotary_pos_emb(query, key, *turns)
    query = query * attention.scaling
    return HiddenStates(image, seen_patches, states[middle + 1], text.norm(states[-1]), query, key)


def encode_images(network: PreTrainedModel, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the states of image tokens, and of their patches, of what `patches` made."""
    vision, images = network.model.visual, len(pixels)
    side = CANVAS // PATCH
    places = get_vision_position_ids(torch.tensor([[1, side, side]]), 2, kwargs={})
    turns = vision.rotary_pos_emb(pixels, places)
    hidden = functional.linear(pixels.flatten(0, 1), vision.patch_embed.proj.weight.flatten(1))
    for block in vision.blocks:
        joint = block.attn.qkv(block.norm1(hidden)).unflatten(-1, (3, block.attn.num_heads, -1))
        query, key, value = joint.unbind(2)
        query, key = qwen.apply_rotary_pos_emb_vision(query, key, *turns)
        query, key, value = (one.transpose(1, 2) for one in (query, key, value))
        # Plain products: at such lengths their backward pass is faster than the fused kernel's.
        scores = query * query.shape[-1] ** -0.5 @ key.mT
        mixed = torch.softmax(scores, dim=-1, dtype=scores.dtype) @ value
        hidden = hidden + block.attn.proj(mixed.transpose(1, 2).flatten(2))
        hidden = hidden + block.mlp(block.norm2(hidden))
    normed = vision.merger.ln_q(hidden).view(images, -1, hidden.shape[-1])
    return vision.merger.mlp(normed.view(images, -1, 4 * hidden.shape[-1])), normed


def patches(images: Tensor) -> Tensor:
    """Images × grids in time × patches × 1176: normalised, as the processor gives them.

    A patch is of two moments, equal in a still; patches come in blocks of 2 × 2. `images` are
    images × frames × side × side × 3, uint8; one frame, or an even number.
    """
    if images.shape[1] == 1:
        images = images.expand(-1, 2, -1, -1, -1)
    blocks = CANVAS // (2 * PATCH)
    mean, deviation = torch.tensor(OPENAI_CLIP_MEAN), torch.tensor(OPENAI_CLIP_STD)
    scaled = (images.float() / 255 - mean) / deviation
    split = scaled.reshape(len(images), -1, 2, blocks, 2, PATCH, blocks, 2, PATCH, 3)
    return split.permute(0, 1, 3, 6, 4, 7, 9, 2, 5, 8).flatten(6).flatten(2, 5)

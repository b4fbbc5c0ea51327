"""The network's own computation, laid out for training on many small images at once.

The modules are transformers', and so are the logits (a test holds the two against each other). On a
CPU it is several times as fast: all images of a batch are one tensor, where transformers attends
within one after the other, and the vocabulary is computed only at the places that are learned.
"""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from pocket_training.vlm.vocabulary import CANVAS

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLDecoderLayer

PATCH = 14  # pixels along each side
MEAN = torch.tensor([0.48145466, 0.4578275, 0.40821073])
DEVIATION = torch.tensor([0.26862954, 0.26130258, 0.27577711])
"""Standard deviation of the images' channels, as in Qwen2.5-VL's processor."""

LOOKING = 2  # heads of the layer after the middle one whose attention is learned


class HiddenStates(NamedTuple):
    """Hidden states that the losses read."""

    image: Tensor
    """Images × image tokens × width: the vision tower's output."""
    patches: Tensor
    """Images × patches × width: states before the merger, four patches for each token."""
    middle: Tensor
    """Rows × tokens × width: hidden states after the layer that heads read."""
    last: Tensor
    """Rows × tokens × width: input of the language-model head."""
    query: Tensor
    """Rows × 2 × tokens × head width: two heads' queries in the layer after the middle one."""
    key: Tensor
    """Keys of the attention, in the same form."""


def run_network(
    network: "PreTrainedModel",
    images: Tensor,
    tokens: Tensor,
    positions: Tensor,
    owner: Tensor,
    seen: Tensor,
    *,
    middle: int,
) -> HiddenStates:
    """States of a batch in a Qwen2_5_VLForConditionalGeneration.

    Args:
        network: The network.
        images: Images × frames × side × side × 3, uint8; see `patches`.
        tokens: Rows × length, padded on the right.
        positions: 3 × rows × length: time, height and width of each token.
        owner: Rows: the image of each.
        seen: Rows × length: True at image tokens, equally many in each row.
        middle: Index of the text layer that heads read.
    """
    image, seen_patches = encode_images(network, patches(images))
    text = network.model.language_model
    embedded = text.embed_tokens(tokens)
    hidden = embedded.masked_scatter(seen[..., None], image[owner].to(embedded.dtype))
    turns = text.rotary_emb(hidden, positions)
    hole = torch.full((tokens.shape[1],) * 2, -1e4, dtype=hidden.dtype).triu(1)[None, None]
    states = [hidden]
    for layer in text.layers:
        states.append(layer(states[-1], attention_mask=hole, position_embeddings=turns))
    query, key = _looks(text.layers[middle + 1], states[middle + 1], *turns)
    return HiddenStates(image, seen_patches, states[middle + 1], text.norm(states[-1]), query, key)


def encode_images(network: "PreTrainedModel", pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the states of image tokens, and of their patches, of what `patches` made."""
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import apply_rotary_pos_emb_vision
    from transformers.vision_utils import get_vision_position_ids

    vision, images = network.model.visual, len(pixels)
    side = CANVAS // PATCH
    places = get_vision_position_ids(torch.tensor([[1, side, side]]), 2, kwargs={})
    turns = vision.rotary_pos_emb(pixels, places)
    hidden = functional.linear(pixels.flatten(0, 1), vision.patch_embed.proj.weight.flatten(1))
    for block in vision.blocks:
        joint = block.attn.qkv(block.norm1(hidden)).unflatten(-1, (3, block.attn.num_heads, -1))
        query, key, value = joint.unbind(2)
        query, key = apply_rotary_pos_emb_vision(query, key, *turns)
        mixed = _attend(*(one.transpose(1, 2) for one in (query, key, value)))
        hidden = hidden + block.attn.proj(mixed.transpose(1, 2).flatten(2))
        hidden = hidden + block.mlp(block.norm2(hidden))
    normed = vision.merger.ln_q(hidden).view(images, -1, hidden.shape[-1])
    return vision.merger.mlp(normed.view(images, -1, 4 * hidden.shape[-1])), normed


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Plain products: at such lengths their backward pass is faster than the fused kernel's."""
    scores = query * query.shape[-1] ** -0.5 @ key.mT
    return torch.softmax(scores, dim=-1, dtype=scores.dtype) @ value


def _looks(
    layer: "Qwen2_5_VLDecoderLayer", hidden: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the queries, scaled, and the keys of the layer's first heads."""
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import apply_rotary_pos_emb

    attention, normed = layer.self_attn, layer.input_layernorm(hidden)
    query, key = (
        part(normed).unflatten(-1, (-1, attention.head_dim))[:, :, :LOOKING].transpose(1, 2)
        for part in (attention.q_proj, attention.k_proj)
    )
    query, key = apply_rotary_pos_emb(query, key, cos, sin)
    return query * attention.scaling, key


def patches(images: Tensor) -> Tensor:
    """Patches in the order of the architecture, normalised, as the processor gives them.

    Args:
        images: Images × frames × side × side × 3, uint8; one frame, or an even number.

    Returns:
        Images × grids in time × patches × 1176: a patch in two moments, equal in a still. Patches
        come in blocks of 2 × 2.
    """
    if images.shape[1] == 1:
        images = images.expand(-1, 2, -1, -1, -1)
    blocks = CANVAS // (2 * PATCH)
    scaled = (images.float() / 255 - MEAN) / DEVIATION
    split = scaled.reshape(len(images), -1, 2, blocks, 2, PATCH, blocks, 2, PATCH, 3)
    return split.permute(0, 1, 3, 6, 4, 7, 9, 2, 5, 8).flatten(6).flatten(2, 5)

"""The network's own computation, laid out for training on many small images at once.

Works on the weights of the transformers modules and gives their logits (a test holds the two
against each other). It is several times as fast on a CPU: all images of a batch are one
tensor, both temporal kernels of the patch embedding are summed where an image stands still,
the vocabulary is computed at the places that are asked for alone, and attention is two matrix
products, whose backward pass is faster than that of the fused kernel at such lengths.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from pocket_training.vlm.vocabulary import CANVAS

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import (
        Qwen2_5_VisionTransformerPretrainedModel,
        Qwen2_5_VLRMSNorm,
        Qwen2_5_VLTextModel,
        Qwen2_5_VLVisionAttention,
    )


@dataclass(frozen=True, slots=True)
class HiddenStates:
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


class Forward:
    """The forward pass of a Qwen2_5_VLForConditionalGeneration."""

    def __init__(self, network: "PreTrainedModel", *, tap: int) -> None:
        """Take a network; `tap` is the index of the text layer that heads read."""
        self._vision = network.model.visual
        self._text = network.model.language_model
        self._tap = tap
        self._cos, self._sin = _vision_rotations(self._vision)
        self._rotations, self._axis = _text_rotations(self._text)

    def __call__(
        self, pixels: Tensor, tokens: Tensor, positions: Tensor, owner: Tensor, seen: Tensor
    ) -> HiddenStates:
        """States of a batch.

        Args:
            pixels: Images × grids in time × patches × 2 × 588 (or × 1 × 588 for a still).
            tokens: Rows × length, padded on the right.
            positions: 3 × rows × length: time, height and width of each token.
            owner: Rows: the image of each.
            seen: Rows × length: True at image tokens, equally many in each row.
        """
        image, seen_patches = self._encode_image(pixels)
        embedded = self._text.embed_tokens(tokens)
        own = image[owner].to(embedded.dtype)
        hidden = embedded.masked_scatter(seen[..., None], own)
        return HiddenStates(image, seen_patches, *self._run_layers(hidden, positions))

    def _encode_image(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states of image tokens, and of their patches."""
        images, times, patches = pixels.shape[:3]
        kernel = self._vision.patch_embed.proj.weight  # width × 3 × 2 × 14 × 14
        if pixels.shape[3] == 1:
            flat = functional.linear(pixels[:, :, :, 0], kernel.sum(2).flatten(1))
        else:
            first, second = (
                functional.linear(pixels[:, :, :, moment], kernel[:, :, moment].flatten(1))
                for moment in range(2)
            )
            flat = first + second
        hidden = flat.view(images * times, patches, -1)
        for block in self._vision.blocks:
            hidden = hidden + self._attend_patches(block.attn, _apply_norm(hidden, block.norm1))
            hidden = hidden + block.mlp(_apply_norm(hidden, block.norm2))
        merger = self._vision.merger
        normed = _apply_norm(hidden, merger.ln_q)
        merged: Tensor = merger.mlp(normed.view(images, times * patches // 4, -1))
        return merged, normed.view(images, times * patches, -1)

    def _attend_patches(self, attention: "Qwen2_5_VLVisionAttention", hidden: Tensor) -> Tensor:
        batch, length, _ = hidden.shape
        joint = attention.qkv(hidden).view(batch, length, 3, attention.num_heads, -1)
        query, key, value = joint.permute(2, 0, 3, 1, 4)
        cos, sin = self._cos.to(query.dtype), self._sin.to(query.dtype)
        mixed = _attention(_rotate(query, cos, sin), _rotate(key, cos, sin), value, None)
        seen: Tensor = attention.proj(mixed.transpose(1, 2).reshape(batch, length, -1))
        return seen

    def _run_layers(
        self, hidden: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The states of the middle, the last ones, and queries and keys of the layer between."""
        batch, length, _ = hidden.shape
        cos, sin = self._turns(positions)
        hole = torch.full((length, length), -1e4, dtype=hidden.dtype).triu(1)
        middle, looking = hidden, (hidden, hidden)
        for place, layer in enumerate(self._text.layers):
            attention = layer.self_attn
            normed = _apply_norm(hidden, layer.input_layernorm)
            query, key, value = (
                part(normed).view(batch, length, -1, attention.head_dim).transpose(1, 2)
                for part in (attention.q_proj, attention.k_proj, attention.v_proj)
            )
            cos, sin = cos.to(query.dtype), sin.to(query.dtype)
            query, key = _rotate(query, cos, sin), _rotate(key, cos, sin)
            if place == self._tap + 1:
                looking = query[:, :2] * query.shape[-1] ** -0.5, key[:, :2]
            mixed = _attention(query, key, value, hole.to(query.dtype))
            hidden = hidden + attention.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))
            hidden = hidden + layer.mlp(_apply_norm(hidden, layer.post_attention_layernorm))
            if place == self._tap:
                middle = hidden
        return middle, _apply_norm(hidden, self._text.norm), *looking

    def _turns(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, rows × 1 × length × head width."""
        chosen = positions[self._axis].permute(1, 2, 0)  # rows × length × frequencies
        angles = chosen.float() * self._rotations
        whole = torch.cat([angles, angles], dim=-1)[:, None]
        return whole.cos(), whole.sin()


def _apply_norm(hidden: Tensor, norm: "Qwen2_5_VLRMSNorm") -> Tensor:
    return functional.rms_norm(
        hidden.float(), (hidden.shape[-1],), norm.weight, norm.variance_epsilon
    )


def _rotate(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = states.shape[-1] // 2
    return states * cos + torch.cat([-states[..., half:], states[..., :half]], dim=-1) * sin


def _attention(query: Tensor, key: Tensor, value: Tensor, hole: Tensor | None) -> Tensor:
    batch, heads, length, width = query.shape
    scaled = (query * width**-0.5).reshape(batch * heads, length, width)
    scores = torch.bmm(scaled, key.reshape(batch * heads, length, width).transpose(1, 2))
    if hole is not None:
        scores = scores + hole
    shares = torch.softmax(scores, dim=-1, dtype=scores.dtype)
    mixed = torch.bmm(shares, value.reshape(batch * heads, length, width))
    return mixed.view(batch, heads, length, width)


def _vision_rotations(
    vision: "Qwen2_5_VisionTransformerPretrainedModel",
) -> tuple[Tensor, Tensor]:
    from transformers.vision_utils import get_vision_position_ids

    places = get_vision_position_ids(torch.tensor([[1, PATCHES, PATCHES]]), 2, kwargs={})
    cos, sin = vision.rotary_pos_emb(torch.zeros(1), places)
    return cos, sin


def _text_rotations(text: "Qwen2_5_VLTextModel") -> tuple[Tensor, Tensor]:
    """The frequencies of the text's rotary embedding, and the axis that each one turns by."""
    rotary = text.rotary_emb
    axes = [axis for axis, width in enumerate(rotary.mrope_section) for _ in range(width)]
    return rotary.inv_freq.clone(), torch.tensor(axes)


MEAN = torch.tensor([0.48145466, 0.4578275, 0.40821073])
DEVIATION = torch.tensor([0.26862954, 0.26130258, 0.27577711])
"""Standard deviation of the images' channels, as in Qwen2.5-VL's processor."""

PATCH = 14  # pixels along each side
PATCHES = CANVAS // PATCH  # along each side of the canvas


def patches(images: Tensor) -> Tensor:
    """Patches in the order of the architecture, normalised.

    Args:
        images: Images × frames × side × side × 3, uint8; one frame, or an even number.

    Returns:
        Images × grids in time × patches × moments × 588; one moment for a still image, whose
        two are equal, and two for a clip. Patches come in blocks of 2 × 2.
    """
    number, frames, side = images.shape[:3]
    moments = 1 if frames == 1 else 2
    blocks = side // (2 * PATCH)
    scaled = (images.float() / 255 - MEAN) / DEVIATION
    split = scaled.view(number, frames // moments, moments, blocks, 2, PATCH, blocks, 2, PATCH, 3)
    ordered = split.permute(0, 1, 3, 6, 4, 7, 2, 9, 5, 8)
    return ordered.reshape(number, frames // moments, blocks * blocks * 4, moments, -1)

"""One further token for every row, in as few operations as a layer needs.

The layers of transformers take any number of queries and any kind of attention: for a single query
a row they start 60 to 90 operations a layer, of which most take longer to start than to run. Here
the same products are computed in 20 to 30. Only the order of rounding differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.models.backends.cpu_kernels import MAX_WEIGHTS_OF_ONE_THREAD, STEPS_IN_FLOAT32

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import DynamicCache, PreTrainedModel

COPIED = MAX_WEIGHTS_OF_ONE_THREAD
"""Numbers of a network up to which a CPU gets its weights once more: joined, in float32."""
TEXT_MODELS = frozenset(
    {
        "LlamaModel",
        "Qwen2Model",
        "Qwen2VLTextModel",
        "Qwen2_5_VLTextModel",
        "Qwen3Model",
        "Qwen3VLTextModel",
    }
)
"""Classes of transformers whose layers `TokenStep` computes."""
ROTATIONS = frozenset({"default", "linear", "llama3", "yarn"})
"""Kinds of rotary embedding whose frequencies do not depend on the length of the text."""


@dataclass(frozen=True, slots=True)
class Product:
    """Linear layers of one input; their outputs are `sizes` wide."""

    parts: "Sequence[tuple[Tensor, Tensor | None]]"
    """Weight (outputs × inputs) and bias (outputs) of each layer, or of all joined."""
    sizes: tuple[int, ...]

    def __call__(self, values: "Tensor") -> "Sequence[Tensor]":
        """Return the outputs of rows (rows × inputs)."""
        from torch.nn.functional import linear

        outputs = [linear(values, *part) for part in self.parts]
        joined = len(self.parts) < len(self.sizes)
        return outputs[0].split(self.sizes, dim=1) if joined else outputs


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer."""

    before_attention: "Tensor"
    attention_inputs: Product
    head_norms: "tuple[Tensor, Tensor] | None"
    attention_output: Product
    before_mlp: "Tensor"
    mlp_inputs: Product
    mlp_output: Product


@dataclass(frozen=True, slots=True)
class TokenStep:
    """A network of text as it computes one token for each of several rows."""

    embedding: "Tensor"
    layers: Sequence[Layer]
    last_norm: "Tensor"
    head: Product
    frequencies: "Tensor"
    scale: float
    """Factor of the rotary embedding."""
    epsilon: float
    key_heads: int
    width: int
    """Numbers of a head."""

    def __call__(
        self, tokens: "Tensor", mask: "Tensor | None", positions: "Tensor", cache: "DynamicCache"
    ) -> "Tensor":
        """Return the logits of the next token (rows × vocabulary); `tokens` enter the cache.

        Args:
            tokens: rows × 1.
            mask: True where a row attends (rows × 1 × 1 × length, with the new token); None:
                everywhere.
            positions: rows × 1.
            cache: Keys and values of what stands before.
        """
        from torch.nn.functional import embedding, rms_norm, scaled_dot_product_attention, silu

        rows = len(tokens)
        hidden = embedding(tokens[:, 0], self.embedding)
        size = (hidden.shape[1],)
        rotation = self._rotation(positions, hidden.dtype)
        for layer, stored in zip(self.layers, cache.layers, strict=True):
            normed = rms_norm(hidden, size, layer.before_attention, self.epsilon)
            query, key, value = (
                part.view(rows, -1, self.width) for part in layer.attention_inputs(normed)
            )
            if layer.head_norms is not None:
                query, key = (
                    rms_norm(part, (self.width,), weight, self.epsilon)
                    for part, weight in zip((query, key), layer.head_norms, strict=True)
                )
            query, key = _rotated(query, *rotation), _rotated(key, *rotation)
            keys, values = stored.update(key[:, :, None], value[:, :, None])
            # Heads that share keys are several queries of one head.
            queries = query.view(rows, self.key_heads, -1, self.width).to(keys.dtype)
            read = scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
            (output,) = layer.attention_output(read.reshape(rows, -1).to(hidden.dtype))
            hidden = hidden + output
            gate, up = layer.mlp_inputs(rms_norm(hidden, size, layer.before_mlp, self.epsilon))
            (output,) = layer.mlp_output(silu(gate) * up)
            hidden = hidden + output
        (logits,) = self.head(rms_norm(hidden, size, self.last_norm, self.epsilon))
        return logits

    def _rotation(self, positions: "Tensor", dtype: Any) -> "tuple[Tensor, Tensor]":
        """Cosine and signed sine of the rotary embedding (rows × 1 × width)."""
        import torch

        angles = positions[:, :, None].float() * self.frequencies
        cosine, sine = angles.cos() * self.scale, angles.sin() * self.scale
        both = torch.cat([cosine, cosine], dim=-1), torch.cat([-sine, sine], dim=-1)
        return both[0].to(dtype), both[1].to(dtype)


def _rotated(heads: "Tensor", cosine: "Tensor", sine: "Tensor") -> "Tensor":
    """Turn queries or keys (rows × heads × width) by their positions."""
    return (heads * cosine).addcmul(heads.roll(heads.shape[-1] // 2, -1), sine)


def token_step(network: "PreTrainedModel") -> TokenStep | None:
    """Return the step of a network on a CPU, for as long as its weights stay as they are.

    None elsewhere, where it was not measured; where the layers are not exactly those of
    `TEXT_MODELS`; and where something else than the weights decides: adapters, quantised weights,
    hooks, gradients.
    """
    import torch

    text = getattr(network.base_model, "language_model", network.base_model)
    head = getattr(network, "lm_head", None)
    on_cpu = network.device.type == "cpu"
    if not on_cpu or torch.is_grad_enabled() or not _is_plain(network, text, head):
        return None
    copied = is_small(network)

    def own(part: Any) -> "Tensor":
        weight: Tensor = part.weight.detach()
        return weight.float() if copied else weight

    layers = []
    for layer in text.layers:
        attention, mlp = layer.self_attn, layer.mlp
        norms = None
        if hasattr(attention, "q_norm"):
            norms = own(attention.q_norm), own(attention.k_norm)
        layers.append(
            Layer(
                own(layer.input_layernorm),
                _product(_linear_layers(attention)[:3], joined=copied),
                norms,
                _product([attention.o_proj], joined=copied),
                own(layer.post_attention_layernorm),
                _product(_linear_layers(mlp)[:2], joined=copied),
                _product([mlp.down_proj], joined=copied),
            )
        )
    return TokenStep(
        own(text.embed_tokens),
        layers,
        own(text.norm),
        _product([head], joined=copied),
        text.rotary_emb.inv_freq.float(),
        text.rotary_emb.attention_scaling,
        text.config.rms_norm_eps,
        text.config.num_key_value_heads,
        text.layers[0].self_attn.head_dim,
    )


def is_small(network: "PreTrainedModel") -> bool:
    """Return True for a network on a CPU whose products take longer to start than to run."""
    return network.device.type == "cpu" and int(network.num_parameters()) <= COPIED


def _is_plain(network: "PreTrainedModel", text: Any, head: Any) -> bool:
    """Return True if plain linear layers and norms of one device decide everything."""
    from torch import nn

    if type(text).__name__ not in TEXT_MODELS or head is None:
        return False
    linear = [
        part
        for layer in text.layers
        for part in (*_linear_layers(layer.self_attn), *_linear_layers(layer.mlp))
    ]
    return (
        all(type(part) is nn.Linear for part in (*linear, head))
        and len({weight.device for weight in (*text.parameters(), head.weight)}) == 1
        and not any(
            part._forward_hooks or part._forward_pre_hooks or hasattr(part, "_hf_hook")
            for part in (network, network.base_model, head, *text.modules())
        )
        and text.config._attn_implementation in ("sdpa", STEPS_IN_FLOAT32)
        and text.rotary_emb.rope_type in ROTATIONS
        and text.config.hidden_act == "silu"
    )


def _linear_layers(part: Any) -> "list[nn.Module]":
    """Return the linear layers of attention or of a multilayer perceptron, in their order."""
    names = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    return [getattr(part, name) for name in names if hasattr(part, name)]


def _product(layers: Sequence[Any], *, joined: bool) -> Product:
    """Return linear layers of one input as a product; `joined` in float32."""
    import torch

    sizes = tuple(layer.weight.shape[0] for layer in layers)
    parts = [
        (layer.weight.detach(), None if layer.bias is None else layer.bias.detach())
        for layer in layers
    ]
    biases = [bias for _, bias in parts if bias is not None]
    if not joined or 0 < len(biases) < len(parts):
        return Product(parts, sizes)
    weight = torch.cat([weight for weight, _ in parts]).float()
    return Product([(weight, torch.cat(biases).float() if biases else None)], sizes)

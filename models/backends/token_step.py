"""Compute the logits of one further token for every row, in few operations, on a CPU.

The layers of transformers take any number of queries and any kind of attention: for a single query
a row they start 60 to 90 operations a layer, most of which take longer to start than to run. A
`TokenStep` computes the same products in 20 to 30; only the order of rounding differs. Continuous
batching uses it where `token_step` returns one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.models.backends.cpu_kernels import MAX_WEIGHTS_OF_ONE_THREAD, STEPS_IN_FLOAT32

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import DynamicCache, PreTrainedModel

MAX_COPIED_WEIGHTS = MAX_WEIGHTS_OF_ONE_THREAD
"""Largest number of weights of a network that is copied in float32, with layers of the same input
joined into one."""
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
    """Linear layers that have the same input; they may be joined into one matrix."""

    parts: "Sequence[tuple[Tensor, Tensor | None]]"
    """Weight (outputs × inputs) and bias (outputs) of each layer, or of all joined."""
    sizes: tuple[int, ...]
    """Number of outputs of each layer."""

    def __call__(self, rows: "Tensor") -> "Sequence[Tensor]":
        """Return each layer's outputs (rows × outputs) of rows (rows × inputs)."""
        from torch.nn.functional import linear

        outputs = [linear(rows, weight, bias) for weight, bias in self.parts]
        joined = len(self.parts) < len(self.sizes)
        return outputs[0].split(self.sizes, dim=1) if joined else outputs


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one transformer layer."""

    before_attention: "Tensor"
    """Weights of an RMS norm (width)."""
    attention_inputs: Product
    """Projections to queries, keys and values."""
    head_norms: "tuple[Tensor, Tensor] | None"
    """Weights of the RMS norms of each head's queries and keys; None: there are no such norms."""
    attention_output: Product
    before_mlp: "Tensor"
    """Weights of an RMS norm (width)."""
    mlp_inputs: Product
    """Projections to gate and up."""
    mlp_output: Product


@dataclass(frozen=True, slots=True)
class TokenStep:
    """A language model as a function from each row's last token to its next token's logits."""

    embedding: "Tensor"
    """Vocabulary × width."""
    layers: Sequence[Layer]
    last_norm: "Tensor"
    head: Product
    frequencies: "Tensor"
    """Angle of the rotary embedding per position, in radians (half of a head's width)."""
    scale: float
    """Factor of the rotary embedding's cosines and sines."""
    epsilon: float
    """Epsilon of the RMS norms."""
    key_heads: int
    width: int
    """Width of a head."""

    def __call__(
        self, tokens: "Tensor", mask: "Tensor | None", positions: "Tensor", cache: "DynamicCache"
    ) -> "Tensor":
        """Return the logits of the next token (rows × vocabulary); `tokens` enter the cache.

        Args:
            tokens: The rows' last tokens (rows × 1).
            mask: True where a row attends (rows × 1 × 1 × length, with the new token); None:
                everywhere.
            positions: Positions of `tokens` (rows × 1).
            cache: Keys and values of the tokens before; those of `tokens` are appended.
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
            # Heads that share keys become several queries of one head.
            queries = query.view(rows, self.key_heads, -1, self.width).to(keys.dtype)
            attended = scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
            (output,) = layer.attention_output(attended.reshape(rows, -1).to(hidden.dtype))
            hidden = hidden + output
            gate, up = layer.mlp_inputs(rms_norm(hidden, size, layer.before_mlp, self.epsilon))
            (output,) = layer.mlp_output(silu(gate) * up)
            hidden = hidden + output
        (logits,) = self.head(rms_norm(hidden, size, self.last_norm, self.epsilon))
        return logits

    def _rotation(self, positions: "Tensor", dtype: Any) -> "tuple[Tensor, Tensor]":
        """Return cosine and signed sine of the rotary embedding (rows × 1 × width each)."""
        import torch

        angles = positions[:, :, None].float() * self.frequencies
        cosine, sine = angles.cos() * self.scale, angles.sin() * self.scale
        cosines = torch.cat([cosine, cosine], dim=-1)
        signed_sines = torch.cat([-sine, sine], dim=-1)
        return cosines.to(dtype), signed_sines.to(dtype)


def _rotated(heads: "Tensor", cosine: "Tensor", sine: "Tensor") -> "Tensor":
    """Return queries or keys (rows × heads × width) rotated by their positions."""
    return (heads * cosine).addcmul(heads.roll(heads.shape[-1] // 2, -1), sine)


def token_step(network: "PreTrainedModel") -> TokenStep | None:
    """Return the step of a network on a CPU; it is valid until the network's weights change.

    It is None on other devices, where it was not measured, for other classes than `TEXT_MODELS`,
    and if more than the weights determines the outputs: adapters, quantised weights, hooks or
    gradients.
    """
    import torch

    text = getattr(network.base_model, "language_model", network.base_model)
    head = getattr(network, "lm_head", None)
    on_cpu = network.device.type == "cpu"
    if not on_cpu or torch.is_grad_enabled() or not _has_standard_layers(network, text, head):
        return None
    copied = is_small(network)

    def weight_of(module: Any) -> "Tensor":
        weight: Tensor = module.weight.detach()
        return weight.float() if copied else weight

    layers = []
    for layer in text.layers:
        attention, mlp = layer.self_attn, layer.mlp
        norms = None
        if hasattr(attention, "q_norm"):
            norms = weight_of(attention.q_norm), weight_of(attention.k_norm)
        layers.append(
            Layer(
                weight_of(layer.input_layernorm),
                _make_product(_linear_layers(attention)[:3], joined=copied),  # q, k, v
                norms,
                _make_product([attention.o_proj], joined=copied),
                weight_of(layer.post_attention_layernorm),
                _make_product(_linear_layers(mlp)[:2], joined=copied),  # gate, up
                _make_product([mlp.down_proj], joined=copied),
            )
        )
    return TokenStep(
        weight_of(text.embed_tokens),
        layers,
        weight_of(text.norm),
        _make_product([head], joined=copied),
        text.rotary_emb.inv_freq.float(),
        text.rotary_emb.attention_scaling,
        text.config.rms_norm_eps,
        text.config.num_key_value_heads,
        text.layers[0].self_attn.head_dim,
    )


def is_small(network: "PreTrainedModel") -> bool:
    """Return True for a network on a CPU whose products take longer to start than to run."""
    return network.device.type == "cpu" and int(network.num_parameters()) <= MAX_COPIED_WEIGHTS


def _has_standard_layers(network: "PreTrainedModel", text: Any, head: Any) -> bool:
    """Return True if unchanged layers of `TEXT_MODELS` on one device compute everything."""
    from torch import nn

    if type(text).__name__ not in TEXT_MODELS or head is None:
        return False
    linear_layers = [
        linear
        for layer in text.layers
        for linear in (*_linear_layers(layer.self_attn), *_linear_layers(layer.mlp))
    ]
    has_hooks = any(
        module._forward_hooks or module._forward_pre_hooks or hasattr(module, "_hf_hook")
        for module in (network, network.base_model, head, *text.modules())
    )
    devices = {weight.device for weight in (*text.parameters(), head.weight)}
    return (
        all(type(linear) is nn.Linear for linear in (*linear_layers, head))
        and not has_hooks
        and len(devices) == 1
        and text.config._attn_implementation in ("sdpa", STEPS_IN_FLOAT32)
        and text.rotary_emb.rope_type in ROTATIONS
        and text.config.hidden_act == "silu"
    )


def _linear_layers(module: Any) -> "list[nn.Module]":
    """Return the linear layers of attention or of a multilayer perceptron, in this order."""
    names = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    return [getattr(module, name) for name in names if hasattr(module, name)]


def _make_product(layers: Sequence[Any], *, joined: bool) -> Product:
    """Return the product of linear layers that have the same input.

    With `joined` their weights become one matrix in float32. Layers of which only some have a
    bias are not joined.
    """
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

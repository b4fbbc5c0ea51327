"""The same arithmetic of a loaded network, in forms that cost less where it runs.

Nothing here changes what is computed, only how it is rounded; weights and their names stay as they
are.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

STEPS_IN_FLOAT32 = "sdpa_steps_in_float32"
"""Name of `one_query_in_float32` in transformers' list of attentions."""
THREADS = "OMP_NUM_THREADS"
MAX_WEIGHTS_OF_ONE_THREAD = 10_000_000
"""Weights up to which a network runs in one thread: with pocket (2.6 million) two threads take two
to four times the CPU time of one, and longer (docs/scale.md). Nothing larger was measured."""
MAX_CONVERTED = 1 << 22
"""Numbers of the keys, beyond which copying them costs more than it saves."""
EVEN = 64
"""Rows of products are made up to a multiple of this, if there are more."""
FEW, SMALL = 16, 1 << 16
"""Rows, and numbers of a weight, up to which a product in half precision takes longer to begin than
to make: 25 µs, with 128 × 128 weights and conversions 12 in float32."""


def use_cpu_kernels(network: "PreTrainedModel", *, attn_implementation: str) -> "PreTrainedModel":
    """A network on its device, with what pays there; of attention only where that is `auto`."""
    _patches_as_products(network)
    _one_thread_if_small(network)
    if network.device.type == "cpu" and network.dtype.itemsize == 2:
        _products_of_few_shapes(network)
        if attn_implementation == "auto":
            _steps_in_float32(network)
    return network


def _one_thread_if_small(network: "PreTrainedModel") -> None:
    """Set one thread for this process, unless the user has set a number or the network is larger.

    Threads of a small network wait for each other longer than they compute.
    """
    import torch

    is_small = sum(weight.numel() for weight in network.parameters()) <= MAX_WEIGHTS_OF_ONE_THREAD
    if network.device.type == "cpu" and is_small and THREADS not in os.environ:
        torch.set_num_threads(1)


def _patches_as_products(network: "PreTrainedModel") -> None:
    """Cut-out patches times weights, in place of a convolution whose kernel meets each patch once.

    Convolutions over 3 dimensions take four times as long on a CPU, and on a GPU with torch 2.9
    also many times the memory (pytorch/pytorch#166643). The `fusion_config` of transformers does
    the same, but to all networks that the process builds afterwards, and renames the weight.
    """
    from torch import nn

    embedding = getattr(getattr(network.base_model, "visual", None), "patch_embed", None)
    patches = getattr(embedding, "proj", None)
    # An adapter's layer is of another class and is left alone.
    if (
        type(patches) is nn.Conv3d
        and patches.kernel_size == patches.stride
        and patches.groups == 1
        and patches.dilation == (1, 1, 1)
        and patches.padding == (0, 0, 0)
    ):
        patches.forward = _product.__get__(patches)  # type: ignore[method-assign]


def _product(convolution: "nn.Conv3d", patches: "Tensor") -> "Tensor":
    """Apply a convolution, as one product of matrices for inputs exactly of the kernel's size."""
    if patches.shape[1:] != convolution.weight.shape[1:]:
        whole: Tensor = type(convolution).forward(convolution, patches)
        return whole
    flat = _linear(patches.flatten(1), convolution.weight.flatten(1), convolution.bias)
    return flat[:, :, None, None, None]


def _products_of_few_shapes(network: "PreTrainedModel") -> None:
    """Make up rows, so that few products are compiled; small products of few rows in float32.

    On a CPU in half precision torch compiles a product for every number of rows that it meets:
    3 ms for one that then takes 0.1 ms, again for each layer's shape of weights. Prompts and
    images have as many numbers of rows as there are lengths.
    """
    from torch import nn

    for layer in network.modules():
        if type(layer) is nn.Linear:  # others have arithmetic of their own
            layer.forward = _made_up.__get__(layer)  # type: ignore[method-assign]


def _made_up(layer: "nn.Linear", values: "Tensor") -> "Tensor":
    import torch

    # Looked up here, because a module searches long for an attribute; 43 products are one token.
    weight, bias = layer._parameters["weight"], layer._parameters["bias"]
    assert weight is not None, "a linear layer has weights"
    few = values.numel() <= FEW * values.shape[-1] and weight.numel() <= SMALL
    half = values.dtype is weight.dtype and weight.dtype.itemsize == 2 and weight.is_cpu
    if not few or not half or torch.is_grad_enabled() or weight.is_inference():
        return _linear(values, weight, bias)
    state = _state(weight), None if bias is None else _state(bias)
    known = layer.__dict__.get("in_float32")
    if known is None or known[0] != state:
        known = state, weight.float(), None if bias is None else bias.float()
        layer.__dict__["in_float32"] = known
    return torch.nn.functional.linear(values.float(), known[1], known[2]).to(values.dtype)


def _state(weight: "Tensor") -> tuple[int, int]:
    """Another one after each change, but for changes behind torch's back, as of `weight.data`."""
    return weight.data_ptr(), weight._version


def _linear(values: "Tensor", weight: "Tensor", bias: "Tensor | None") -> "Tensor":
    """Values (… × width) times weights; in half precision on a CPU of an even number of rows."""
    from torch.nn.functional import linear, pad

    rows = values.numel() // values.shape[-1]
    odd = rows > EVEN and rows % EVEN  # padding by nothing would copy all
    if not odd or values.device.type != "cpu" or values.dtype.itemsize != 2:
        return linear(values, weight, bias)
    flat = pad(values.reshape(rows, -1), (0, 0, 0, -rows % EVEN))
    return linear(flat, weight, bias)[:rows].view(*values.shape[:-1], -1)


def _steps_in_float32(network: "PreTrainedModel") -> None:
    text = getattr(network.config, "text_config", None)
    if getattr(text, "_attn_implementation", None) != "sdpa":
        return
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(STEPS_IN_FLOAT32, one_query_in_float32)
    AttentionMaskInterface.register(STEPS_IN_FLOAT32, sdpa_mask)
    network.set_attn_implementation({"text_config": STEPS_IN_FLOAT32})


def one_query_in_float32(
    module: "nn.Module",
    query: "Tensor",
    key: "Tensor",
    value: "Tensor",
    attention_mask: "Tensor | None",
    **named: object,
) -> "tuple[Tensor, None]":
    """The `sdpa` of transformers; for one query a row, if every head has its own keys, in float32.

    There torch's kernel for the CPU takes three times as long in bfloat16, conversions included.
    Heads that share keys are several queries for one, which its other kernel takes, and that is
    quicker as it is.

    Args:
        module: The layer.
        query: rows × heads × queries × width.
        key: rows × heads that have keys of their own × tokens × width.
        value: Likewise.
        attention_mask: rows × 1 × queries × tokens, or none.
        **named: What transformers gives beside, such as `scaling`.

    Returns:
        rows × queries × heads × width, and no weights.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward as sdpa

    own_keys = query.shape[1] == key.shape[1]
    biased = named.get("position_bias") is not None
    if query.shape[2] > 1 or not own_keys or key.numel() > MAX_CONVERTED or biased:
        key, value = key.to(query.dtype), value.to(query.dtype)  # see `kv_cache.as_steps_read`
        read, _ = sdpa(module, query, key, value, attention_mask, **named)
        return read, None
    if attention_mask is not None and attention_mask.is_floating_point():
        attention_mask = attention_mask.float()
    read, _ = sdpa(module, query.float(), key.float(), value.float(), attention_mask, **named)
    return read.to(query.dtype), None

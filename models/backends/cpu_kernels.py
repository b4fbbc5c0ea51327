"""Make a loaded network faster on a CPU by replacing single operations with cheaper equivalents.

The results differ by rounding only; weights and their names stay as they are. The `transformers`
backend and the trainers call `use_cpu_kernels` after loading.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

STEPS_IN_FLOAT32 = "sdpa_steps_in_float32"
"""Name of `one_query_in_float32` in transformers' registry of attention functions."""
THREADS_VARIABLE = "OMP_NUM_THREADS"
MAX_WEIGHTS_OF_ONE_THREAD = 10_000_000
"""Most weights of a network that runs in one thread: with pocket (2.6 million), two threads take
two to four times the CPU time of one, and longer (docs/scale.md). Nothing larger was measured."""
MAX_CONVERTED = 1 << 22
"""Most numbers in the keys of a layer for which converting them to float32 pays."""
ROW_MULTIPLE = 64
"""A product of more rows is padded to a multiple of this number of rows."""
MAX_FLOAT32_ROWS, MAX_FLOAT32_WEIGHTS = 16, 1 << 16
"""Most rows, and most numbers of a weight, for which a product is made in float32. In half
precision the start of such a product (25 µs) takes longer than the whole in float32 with
conversions (12 µs, 128 × 128 weights)."""


def use_cpu_kernels(network: "PreTrainedModel", *, attn_implementation: str) -> "PreTrainedModel":
    """Return the network with the replacements that pay on its device.

    Attention is replaced only if `attn_implementation` is `auto`.
    """
    _replace_patch_convolution(network)
    _use_one_thread_if_small(network)
    if network.device.type == "cpu" and network.dtype.itemsize == 2:
        _replace_linear_products(network)
        if attn_implementation == "auto":
            _replace_attention(network)
    return network


def _use_one_thread_if_small(network: "PreTrainedModel") -> None:
    """Let torch use one thread in this process if the network is small and on the CPU.

    Its threads would wait for each other longer than they compute. A number that the user set in
    `OMP_NUM_THREADS` stays.
    """
    import torch

    is_small = sum(weight.numel() for weight in network.parameters()) <= MAX_WEIGHTS_OF_ONE_THREAD
    if network.device.type == "cpu" and is_small and THREADS_VARIABLE not in os.environ:
        torch.set_num_threads(1)


def _replace_patch_convolution(network: "PreTrainedModel") -> None:
    """Replace the 3-D convolution of the patch embedding by a matrix product.

    Each patch is exactly as large as the kernel. The convolution takes four times as long on a CPU,
    and on a GPU with torch 2.9 also many times the memory (pytorch/pytorch#166643). transformers'
    `fusion_config` does the same, but to all networks that the process builds afterwards, and
    renames the weight.
    """
    from torch import nn

    embedding = getattr(getattr(network.base_model, "visual", None), "patch_embed", None)
    patches = getattr(embedding, "proj", None)
    # An adapter's layer is of another class and stays.
    if (
        type(patches) is nn.Conv3d
        and patches.kernel_size == patches.stride
        and patches.groups == 1
        and patches.dilation == (1, 1, 1)
        and patches.padding == (0, 0, 0)
    ):
        patches.forward = _patch_product.__get__(patches)  # type: ignore[method-assign]


def _patch_product(convolution: "nn.Conv3d", patches: "Tensor") -> "Tensor":
    """Apply a convolution; inputs of the kernel's size are multiplied by the weights' matrix."""
    if patches.shape[1:] != convolution.weight.shape[1:]:
        output: Tensor = type(convolution).forward(convolution, patches)
        return output
    flat = _linear(patches.flatten(1), convolution.weight.flatten(1), convolution.bias)
    return flat[:, :, None, None, None]


def _replace_linear_products(network: "PreTrainedModel") -> None:
    """Pad the rows of linear layers' inputs, and compute small products in float32.

    In half precision on a CPU, torch compiles code for every new number of rows and shape of
    weights, which takes 3 ms where the product takes 0.1 ms. Prompts and images have many lengths,
    and so many numbers of rows.
    """
    from torch import nn

    for layer in network.modules():
        if type(layer) is nn.Linear:  # subclasses have their own arithmetic
            layer.forward = _fast_linear.__get__(layer)  # type: ignore[method-assign]


def _fast_linear(layer: "nn.Linear", values: "Tensor") -> "Tensor":
    """Apply a linear layer; a small product in half precision on the CPU is made in float32.

    The weights in float32 are cached in the layer until the weights change.
    """
    import torch

    # A module's attribute look-up is slow, and one token takes 43 products.
    weight, bias = layer._parameters["weight"], layer._parameters["bias"]
    assert weight is not None, "a linear layer has weights"
    has_few_rows = values.numel() <= MAX_FLOAT32_ROWS * values.shape[-1]
    is_small = has_few_rows and weight.numel() <= MAX_FLOAT32_WEIGHTS
    is_half = values.dtype is weight.dtype and weight.dtype.itemsize == 2 and weight.is_cpu
    # The cached weights have no gradient. Weights of inference mode have no version, by which
    # `_state` notices a change.
    if not is_small or not is_half or torch.is_grad_enabled() or weight.is_inference():
        return _linear(values, weight, bias)
    state = _state(weight), None if bias is None else _state(bias)
    cached = layer.__dict__.get("in_float32")
    if cached is None or cached[0] != state:
        cached = state, weight.float(), None if bias is None else bias.float()
        layer.__dict__["in_float32"] = cached
    return torch.nn.functional.linear(values.float(), cached[1], cached[2]).to(values.dtype)


def _state(weight: "Tensor") -> tuple[int, int]:
    """Return a value that changes with the weight, except for changes through `weight.data`."""
    return weight.data_ptr(), weight._version


def _linear(values: "Tensor", weight: "Tensor", bias: "Tensor | None") -> "Tensor":
    """Return values (… × width) times weights; on a CPU in half precision, rows are padded.

    Without AVX-512 torch makes such a product one number at a time: of 4,096 rows with 64 × 192
    weights in 43 ms, for which float32 with conversions takes 6 ms.
    """
    from torch.nn.functional import linear, pad

    rows = values.numel() // values.shape[-1]
    is_half = values.device.type == "cpu" and values.dtype.itemsize == 2
    if is_half and rows > MAX_FLOAT32_ROWS and lacks_half_products():
        bias = None if bias is None else bias.float()
        return linear(values.float(), weight.float(), bias).to(values.dtype)
    needs_padding = rows > ROW_MULTIPLE and rows % ROW_MULTIPLE
    if not needs_padding or not is_half:
        return linear(values, weight, bias)
    flat = pad(values.reshape(rows, -1), (0, 0, 0, -rows % ROW_MULTIPLE))
    return linear(flat, weight, bias)[:rows].view(*values.shape[:-1], -1)


def lacks_half_products() -> bool:
    """Return True if torch has no fast products in half precision for this CPU."""
    import torch

    return torch.backends.cpu.get_cpu_capability() == "AVX2"


def _replace_attention(network: "PreTrainedModel") -> None:
    """Let the language model use `one_query_in_float32` as its attention, if it uses `sdpa`."""
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
    **keywords: object,
) -> "tuple[Tensor, None]":
    """Compute attention as transformers' `sdpa`, for single queries in float32.

    With one query per row and as many key heads as query heads, torch's CPU kernel takes three
    times as long in bfloat16 as in float32 with conversions. If heads share keys, torch uses
    another kernel, which is faster without conversion.

    Args:
        module: The attention layer.
        query: rows × heads × queries × width.
        key: rows × key heads × tokens × width.
        value: rows × key heads × tokens × width.
        attention_mask: rows × 1 × queries × tokens, or None.
        **keywords: Further arguments of transformers, such as `scaling`.

    Returns:
        The output, rows × queries × heads × width, and None for the attention weights.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward as sdpa

    shares_keys = query.shape[1] != key.shape[1]
    has_bias = keywords.get("position_bias") is not None
    if query.shape[2] > 1 or shares_keys or key.numel() > MAX_CONVERTED or has_bias:
        key, value = key.to(query.dtype), value.to(query.dtype)  # see `kv_cache.as_steps_read`
        output, _ = sdpa(module, query, key, value, attention_mask, **keywords)
        return output, None
    if attention_mask is not None and attention_mask.is_floating_point():
        attention_mask = attention_mask.float()
    output, _ = sdpa(module, query.float(), key.float(), value.float(), attention_mask, **keywords)
    return output.to(query.dtype), None

"""A cache of keys and values that grows in place, for continuous batching.

transformers' cache copies everything for each further token. This one allocates room for more
tokens, and writes their keys and values into it. It is for networks with plain attention in every
layer, without gradients.
"""

import math
from typing import TYPE_CHECKING, Any

from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from harness.models.backends.cpu_kernels import MAX_CONVERTED, STEPS_IN_FLOAT32

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SPARE_TOKENS = 64
"""Number of further tokens that a new allocation has room for."""


class PreallocatedCache(DynamicLayer):
    """The cache of one layer; `keys` and `values` (rows × heads × tokens × width) are views."""

    keys: Tensor
    values: Tensor
    _room: tuple[Tensor, Tensor] | None = None
    """Tensors with room for more keys and values, whose beginnings are `keys` and `values`."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add keys and values of further tokens; return those of all tokens."""
        del args, kwargs
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length, added = self.get_seq_length(), key_states.shape[-2]
        if self._room is None or not self._has_capacity(self._room[0], length + added):
            keys = _enlarge(self.keys, key_states, length)
            self._room = keys, _enlarge(self.values, value_states, length)
        self.keys = _write_tokens(self._room[0], key_states, length)
        self.values = _write_tokens(self._room[1], value_states, length)
        return self.keys, self.values

    def reset(self) -> None:
        """Drop all keys and values, and the room for more."""
        self._room = None
        super().reset()

    def _has_capacity(self, room: Tensor, length: int) -> bool:
        """Return True if `room` holds `length` tokens and `keys` are still its beginning."""
        return room.shape[-2] >= length and self.keys.data_ptr() == room.data_ptr()


def preallocated_cache(layers: list[tuple[Tensor, Tensor]]) -> DynamicCache:
    """Return a cache with these (keys, values), one pair for each layer; empty without layers."""
    cache = DynamicCache()
    cache.layer_class_to_replicate = PreallocatedCache
    for number, (keys, values) in enumerate(layers):
        layer = PreallocatedCache()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.insert(number, layer)
    return cache


def as_steps_read(network: "PreTrainedModel", cache: DynamicCache) -> DynamicCache:
    """Return a cache in the type that single steps read.

    `cpu_kernels.one_query_in_float32` reads float32: keys and values are then converted once, and
    not again for each token, unless they are too many. Otherwise the cache is returned as it is.
    """
    text = network.config.get_text_config()
    shares_keys = text.num_key_value_heads != text.num_attention_heads
    if shares_keys or getattr(text, "_attn_implementation", None) != STEPS_IN_FLOAT32:
        return cache
    if cache.layers[0].keys.numel() > MAX_CONVERTED:
        return cache
    return preallocated_cache(
        [(layer.keys.float(), layer.values.float()) for layer in cache.layers]
    )


def _enlarge(held: Tensor, added: Tensor, length: int) -> Tensor:
    """Return a tensor that begins with `held` (`length` tokens).

    It has room for the tokens of `added` and `SPARE_TOKENS` more.
    """
    rows, heads, n_added, width = added.shape
    shape = rows, heads, length + n_added + SPARE_TOKENS, width
    # `held` may be in float32 although `added` is in half precision, see `as_steps_read`.
    keeps_type = length > 0 and math.prod(shape) <= MAX_CONVERTED
    room = (held if keeps_type else added).new_empty(shape)
    if length:
        room[:, :, :length] = held
    return room


def _write_tokens(room: Tensor, added: Tensor, length: int) -> Tensor:
    """Write `added` after the first `length` tokens; return the view of all tokens."""
    view = room[:, :, : length + added.shape[-2]]
    view[:, :, length:] = added
    return view

"""Keys and values that grow in place.

The caches of transformers copy everything for each further token. Here there is room for some more,
and a token's keys and values are written into it. For networks whose cache is one growing layer of
plain attention each, without gradients.
"""

import math
from typing import TYPE_CHECKING, Any

from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from harness.models.backends.cpu_kernels import MAX_CONVERTED, STEPS_IN_FLOAT32

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ROOM = 64
"""Tokens that there is room for after what made a copy necessary."""


class PreallocatedCache(DynamicLayer):
    """The cache of one layer (rows × heads × tokens × width); `keys` and `values` are views."""

    keys: Tensor
    values: Tensor
    _room: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add some tokens' keys and values; returns all."""
        del args, kwargs
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length, more = self.get_seq_length(), key_states.shape[-2]
        if self._room is None or not self._has_capacity(self._room[0], length + more):
            keys = _enlarge(self.keys, key_states, length)
            self._room = keys, _enlarge(self.values, value_states, length)
        self.keys = _write_tokens(self._room[0], key_states, length)
        self.values = _write_tokens(self._room[1], value_states, length)
        return self.keys, self.values

    def reset(self) -> None:
        """Forget everything, and the room for more."""
        self._room = None
        super().reset()

    def _has_capacity(self, room: Tensor, length: int) -> bool:
        """Return True if `room` holds `length` tokens and `keys` are still its beginning."""
        return room.shape[-2] >= length and self.keys.data_ptr() == room.data_ptr()


def preallocated_cache(layers: list[tuple[Tensor, Tensor]]) -> DynamicCache:
    """A cache that holds these keys and values, one pair a layer; none: it is empty."""
    cache = DynamicCache()
    cache.layer_class_to_replicate = PreallocatedCache
    for number, (keys, values) in enumerate(layers):
        layer = PreallocatedCache()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.insert(number, layer)
    return cache


def as_steps_read(network: "PreTrainedModel", cache: DynamicCache) -> DynamicCache:
    """Return a cache whose keys and values are in float32 if `one_query_in_float32` reads it.

    They are then converted once, and not again for each token; not where they are too many for it.
    """
    text = network.config.get_text_config()
    own_keys = text.num_key_value_heads == text.num_attention_heads
    if not own_keys or getattr(text, "_attn_implementation", None) != STEPS_IN_FLOAT32:
        return cache
    if cache.layers[0].keys.numel() > MAX_CONVERTED:
        return cache
    return preallocated_cache(
        [(layer.keys.float(), layer.values.float()) for layer in cache.layers]
    )


def _enlarge(held: Tensor, more: Tensor, length: int) -> Tensor:
    rows, heads, number, width = more.shape
    shape = rows, heads, length + number + ROOM, width
    # What is held may be in float32 beside half precision, see `as_steps_read`.
    wide = length > 0 and math.prod(shape) <= MAX_CONVERTED
    room = (held if wide else more).new_empty(shape)
    if length:
        room[:, :, :length] = held
    return room


def _write_tokens(room: Tensor, more: Tensor, length: int) -> Tensor:
    whole = room[:, :, : length + more.shape[-2]]
    whole[:, :, length:] = more
    return whole

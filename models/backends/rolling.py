"""Requests of unequal replies, answered together: a row whose reply has ended makes room.

`generate` of transformers answers a batch until its longest reply ends, and rows that have ended
go on as padding. Here the next requests take their places: prompts are read apart, and their keys
and values are put beside those of the rows that go on, both padded on the left to one length.
Positions were turned into keys when these were made, so padding changes nothing but the last bits.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.model import ChatRequest
from harness.models.backends.sampling import Sampling, check_finite, drawn_numbers
from harness.models.backends.stops import Decode, at_stop

if TYPE_CHECKING:
    from torch import Tensor

KNOWN = frozenset({"qwen2_vl", "qwen2_5_vl", "qwen3_vl"})
"""Architectures whose rows may be parted and joined: plain attention over one growing cache."""


def rolls(network: Any, model_type: str) -> bool:
    """Whether rows of this network may be parted and joined."""
    text = network.config.get_text_config()
    sliding = getattr(text, "use_sliding_window", False)
    asked = hasattr(network, "_prepare_position_ids_for_generation")
    return model_type in KNOWN and not sliding and asked


def plan(order: Sequence[int], *, size: int) -> list[list[int]]:
    """Places in the order of `order`: as many as there are rows first, then a quarter at a time."""
    share = max(1, size // 4)
    rest = [list(order[at : at + share]) for at in range(size, len(order), share)]
    return [list(order[:size]), *rest]


@dataclass(slots=True)
class Rows:
    """Requests under way, one a row. Everything is padded on the left."""

    places: list[int]
    written: list[list[int]]
    """The tokens of each reply so far; the last one is not in the cache yet."""
    tokens: "Tensor"
    """Those in the cache, prompts and replies (rows × length of the cache)."""
    mask: "Tensor"
    """1 where a row holds a token of its own (rows × length of the cache)."""
    positions: "Tensor"
    """Where each row's next token stands, one number for time, height and width (1 × rows × 1)."""
    cache: Any
    """Keys and values of every layer (rows × heads × length × width)."""

    def __len__(self) -> int:
        return len(self.places)


def replies(
    network: Any,
    requests: Sequence[ChatRequest],
    parts: Iterable[tuple[list[int], Any]],
    *,
    size: int,
    ends: Sequence[int],
    sampling: Sampling,
    decode: Decode,
) -> Iterator[tuple[int, list[int]]]:
    """Places of requests with the tokens of their replies, end token included, as they end.

    Args:
        network: One that `rolls`.
        requests: Of which `parts` says the places.
        parts: Places with the processor's tensors for them, as `plan` has cut them.
        size: The most rows.
        ends: Tokens that end a reply.
        sampling: How tokens are chosen.
        decode: Text of tokens, in which stop strings are looked for.

    Raises:
        ModelError: a logit is no number.
    """
    stream, rows = iter(parts), None
    share = max(1, size // 4)
    more = True
    while more or rows:
        while more and (rows is None or len(rows) + share <= size):
            part = next(stream, None)
            if part is None:
                more = False
                break
            begun, scores = _begin(network, *part)
            _write(begun, scores, requests, sampling)
            rows = begun if rows is None else _joined(rows, begun)
        if rows is None:
            return
        done = [at for at in range(len(rows)) if _ended(rows, at, requests, ends, decode)]
        yield from ((rows.places[at], rows.written[at]) for at in done)
        if done:
            rows = _kept(rows, [at for at in range(len(rows)) if at not in set(done)])
        if rows is not None and (not more or len(rows) + share > size):
            _write(rows, _step(network, rows), requests, sampling)


def _begin(network: Any, places: list[int], inputs: Any) -> "tuple[Rows, Tensor]":
    """Read prompts: their rows, without a reply yet, and the scores of the first token."""
    from transformers import DynamicCache

    given = dict(inputs)
    positions = network._prepare_position_ids_for_generation(given["input_ids"], given)
    cache = DynamicCache()
    output = network(**given, position_ids=positions, past_key_values=cache, use_cache=True,
                     logits_to_keep=1)  # fmt: skip
    rows = Rows(places, [[] for _ in places], given["input_ids"], given["attention_mask"],
                positions[-1:, :, -1:] + 1, cache)  # fmt: skip
    return rows, output.logits[:, -1]


def _step(network: Any, rows: Rows) -> "Tensor":
    """The scores of the next token of every row, whose last one enters the cache."""
    tokens = rows.tokens.new_tensor([[written[-1]] for written in rows.written])
    rows.mask = _grown(rows.mask, rows.mask.new_ones(len(rows), 1))
    rows.tokens = _grown(rows.tokens, tokens)
    output = network(
        input_ids=tokens, attention_mask=rows.mask, position_ids=rows.positions,
        past_key_values=rows.cache, use_cache=True, logits_to_keep=1,
    )  # fmt: skip
    rows.positions = rows.positions + 1
    scores: Tensor = output.logits[:, -1]
    return scores


def _write(
    rows: Rows, scores: "Tensor", requests: Sequence[ChatRequest], sampling: Sampling
) -> None:
    """Add the chosen token to every row's reply."""
    keys = [requests[place].key for place in rows.places]
    positions = [len(written) for written in rows.written]
    largest = scores.amax(dim=1)
    # A row's last token in place of its padding, which is no token of the row.
    own = rows.tokens.where(rows.mask.bool(), rows.tokens[:, -1:])
    numbers = None
    if sampling.temperature != 0.0:
        numbers = largest.double().new_tensor(drawn_numbers(keys, positions, seed=sampling.seed))
    chosen = sampling.chosen(scores, own, numbers).argmax(dim=1)
    check_finite(largest, keys, positions)
    for written, token in zip(rows.written, chosen.tolist(), strict=True):
        written.append(token)


def _ended(
    rows: Rows, at: int, requests: Sequence[ChatRequest], ends: Sequence[int], decode: Decode
) -> bool:
    written, request = rows.written[at], requests[rows.places[at]]
    if written[-1] in ends or len(written) >= request.max_new_tokens:
        return True
    return at_stop(written, request.stop, decode)


def _grown(columns: "Tensor", last: "Tensor") -> "Tensor":
    """With a column for one more token a row."""
    import torch

    return torch.cat([columns, last], dim=1)


def _joined(first: Rows, second: Rows) -> Rows:
    """The rows of both, padded to the length of the longer ones."""
    import torch
    from torch.nn.functional import pad
    from transformers import DynamicCache

    lengths = [rows.mask.shape[1] for rows in (first, second)]
    one, other = (max(lengths) - length for length in lengths)

    def both(upper: "Tensor", lower: "Tensor") -> "Tensor":
        return torch.cat([pad(upper, (0, 0, one, 0)), pad(lower, (0, 0, other, 0))])

    return Rows(
        first.places + second.places,
        first.written + second.written,
        torch.cat([pad(first.tokens, (one, 0)), pad(second.tokens, (other, 0))]),
        torch.cat([pad(first.mask, (one, 0)), pad(second.mask, (other, 0))]),
        torch.cat([first.positions, second.positions], dim=1),
        DynamicCache([
            (both(upper.keys, lower.keys), both(upper.values, lower.values))
            for upper, lower in zip(first.cache.layers, second.cache.layers, strict=True)
        ]),
    )  # fmt: skip


def _kept(rows: Rows, chosen: list[int]) -> Rows | None:
    """Some of the rows, without padding that all of them have; None for none."""
    from transformers import DynamicCache

    if not chosen:
        return None
    index = rows.mask.new_tensor(chosen)
    mask = rows.mask[index]
    start = int(mask.any(dim=0).int().argmax())
    return Rows(
        [rows.places[at] for at in chosen],
        [rows.written[at] for at in chosen],
        rows.tokens[index, start:],
        mask[:, start:],
        rows.positions[:, index],
        DynamicCache([
            (layer.keys[index, :, start:], layer.values[index, :, start:])
            for layer in rows.cache.layers
        ]),
    )  # fmt: skip

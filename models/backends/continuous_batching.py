"""Continuous batching: when a response ends, the next request takes its row.

transformers' `generate` computes a batch until its longest response ends, and rows that have ended
go on as padding. Here the next prompts are computed separately (prefill), and their keys and values
are joined with those of the rows that go on, all padded on the left to one length. The keys already
contain their positions, so padding changes only the last bits. The next requests may depend on
earlier responses: a `RequestSource` supplies them when rows are free.
"""

from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from harness.chat import ChatRequest
from harness.models.backends.cpu_kernels import STEPS_IN_FLOAT32
from harness.models.backends.inputs import POSITIONS
from harness.models.backends.sampling import Sampling, check_finite
from harness.models.backends.stop_strings import Decode, at_stop
from harness.models.backends.token_positions import positions_as_read, token_positions
from harness.models.backends.token_step import TokenStep, token_step

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BatchFeature, DynamicCache, PreTrainedModel


class PromptBatch(NamedTuple):
    """Requests whose prompts are computed together."""

    request_indices: list[int]
    """Indices of the requests."""
    inputs: "BatchFeature"
    """The processor's tensors of the distinct prompts; perhaps with `token_positions`, under
    `position_ids`."""
    prompt_indices: list[int]
    """Index among `inputs` of each request's prompt; several requests may share one."""
    prefix: "PrefixCache | None" = None
    """Beginnings of the prompts in `inputs`, if they were computed before."""


class PrefixCache(NamedTuple):
    """Keys and values of the beginnings of prompts, which hold all media."""

    rows: "Rows"
    lengths: list[int]
    """Number of tokens of each prompt after its beginning; at least one."""


class RequestSource(Protocol):
    """Supplies the requests to answer."""

    def take(self, free: int) -> PromptBatch | None:
        """Return the next batch of at most `free` prompts; None: nothing is to begin now.

        A batch may hold more requests than `free` (with equal prompts): the first ones begin, the
        others when rows become free. If no row is in use and the result is None, all is answered.
        """
        ...


def least_to_begin(size: int, *, small: bool = False) -> int:
    """Return the smallest number of prompts to begin together, of `size` rows.

    Computing prompts has a fixed cost: that of 8 steps for pocket, which is `small` (`is_small`),
    and of 3 steps for a network of 235 million parameters on a CPU. Waiting for more free rows
    costs the steps in which they are empty. The numbers are constants, because measured times would
    differ from run to run, and with them the last bits of responses in half precision.
    """
    return max(1, size // 2 if small else size // 4)


@dataclass(slots=True)
class Rows:
    """The requests that are being answered, one per row.

    Rows are padded on the left; a row whose prompt had a computed beginning may have padding
    between that and the rest, too.
    """

    request_indices: list[int]
    """Indices of the requests."""
    response_tokens: list[list[int]]
    """Token ids of each response so far; the last one is not in the cache yet."""
    tokens: "Tensor"
    """Token ids in the cache, of prompts and responses (rows × length of the cache)."""
    mask: "Tensor"
    """1 for a token, 0 for padding (rows × length of the cache)."""
    positions: "Tensor"
    """Position of each row's next token, equal in time, height and width (1 × rows × 1)."""
    cache: "DynamicCache"
    """Keys and values of every layer (rows × heads × length × width)."""

    def __len__(self) -> int:
        return len(self.request_indices)


def responses(
    network: "PreTrainedModel",
    requests: Sequence[ChatRequest],
    source: RequestSource,
    *,
    size: int,
    ends: Sequence[int],
    samplings: Sequence[Sampling],
    decode: Decode,
) -> Generator[tuple[int, list[int]], None, None]:
    """Yield (index of a request, token ids of its response, end token included) as each ends.

    Args:
        network: A network that `supports_continuous_batching`.
        requests: The requests that the indices of the source refer to; more may be added later.
        source: Supplies the next requests. A response that has ended is yielded before more
            requests are taken.
        size: Largest number of rows.
        ends: Ids of tokens that end a response.
        samplings: Sampling rule of each request.
        decode: Turns tokens into text, in which stop strings are searched.

    Raises:
        ModelError: the largest logit of a row is NaN or infinite.
    """
    rows: Rows | None = None
    prefilled: _PrefilledPrompts | None = None  # prompts whose requests wait for a free row
    lean_step = token_step(network)
    while True:
        # Fill free rows: with the requests that wait for a computed prompt, then with new prompts.
        while free := size - (0 if rows is None else len(rows)):
            if prefilled is not None:
                if free < min(least_to_begin(size), len(prefilled.request_indices)):
                    break
            elif part := source.take(free):
                prefilled = _prefill(network, part)
            else:
                break
            started, scores, prefilled = _start_rows(prefilled, free)
            _append_tokens(started, scores, requests, samplings)
            rows = started if rows is None else join_rows([rows, started])
        if rows is None:
            return
        outputs = list(zip(rows.request_indices, rows.response_tokens, strict=True))
        ended = [_is_finished(tokens, requests[index], ends, decode) for index, tokens in outputs]
        yield from compress(outputs, ended)
        if any(ended):
            rows = _keep_rows(rows, [row for row, is_over in enumerate(ended) if not is_over])
        else:
            _append_tokens(rows, _step(network, lean_step, rows), requests, samplings)


class _PrefilledPrompts(NamedTuple):
    """Computed prompts, and the requests with these prompts that have not begun."""

    rows: Rows
    """One row per prompt, without a response yet."""
    scores: "Tensor"
    """Logits of the first token (prompts × vocabulary)."""
    request_indices: list[int]
    """Indices of the requests."""
    prompt_indices: list[int]
    """Index of each request's prompt."""


def _prefill(network: "PreTrainedModel", part: PromptBatch) -> _PrefilledPrompts:
    """Compute the prompts of a batch; with a prefix, only the tokens after it."""
    from harness.models.backends.kv_cache import as_steps_read, preallocated_cache

    inputs, cache = dict(part.inputs), preallocated_cache([])
    positions, tokens = inputs.pop(POSITIONS, None), inputs["input_ids"]
    if positions is None:  # tensors that were made before the network was loaded
        positions = token_positions(network, inputs)
    if part.prefix is not None:
        inputs, cache = _suffix_inputs(tokens, *part.prefix), part.prefix.rows.cache
        positions = positions[..., -inputs["input_ids"].shape[1] :]
        tokens = _append_column(part.prefix.rows.tokens, inputs["input_ids"])
    output = network(
        **inputs,
        position_ids=positions_as_read(network, positions),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    prompt_indices = list(range(len(tokens)))
    next_positions = positions[-1:, :, -1:] + 1
    response_tokens = [list[int]() for _ in prompt_indices]
    cache = as_steps_read(network, cache)
    mask = inputs["attention_mask"]
    rows = Rows(prompt_indices, response_tokens, tokens, mask, next_positions, cache)
    return _PrefilledPrompts(rows, output.logits[:, -1], part.request_indices, part.prompt_indices)


def _start_rows(
    prefilled: _PrefilledPrompts, free: int
) -> "tuple[Rows, Tensor, _PrefilledPrompts | None]":
    """Return rows of the first `free` requests, their first tokens' logits, and what is left."""
    begun_prompts = prefilled.prompt_indices[:free]
    later_prompts = prefilled.prompt_indices[free:]
    remaining = None
    if (
        not later_prompts and begun_prompts == prefilled.rows.request_indices
    ):  # each prompt once: no copy is needed
        rows = replace(prefilled.rows, request_indices=prefilled.request_indices)
        return rows, prefilled.scores, None
    if later_prompts:
        needed = sorted(set(later_prompts))
        # the first column that is not padding in all of these rows
        start = int(prefilled.rows.mask[needed].any(dim=0).int().argmax())
        remaining = _PrefilledPrompts(
            chosen_rows(prefilled.rows, needed, request_indices=needed, start=start),
            prefilled.scores[needed],
            prefilled.request_indices[free:],
            [needed.index(prompt) for prompt in later_prompts],
        )
    begun = prefilled.request_indices[:free]
    rows = chosen_rows(prefilled.rows, begun_prompts, request_indices=begun, release=True)
    return rows, prefilled.scores[begun_prompts], remaining


def _suffix_inputs(tokens: "Tensor", rows: Rows, lengths: list[int]) -> "dict[str, Tensor]":
    """Return the tokens of prompts after their beginnings, and the mask of the whole prompts.

    Both are padded on the left. `tokens` are whole prompts (prompts × length), `rows` their
    computed beginnings, and `lengths` the number of each prompt's tokens after its beginning.
    """
    import torch

    width = max(lengths)
    columns = torch.arange(width, device=tokens.device)
    is_token = columns >= width - torch.tensor(lengths, device=tokens.device)[:, None]
    mask = _append_column(rows.mask, is_token.to(rows.mask))
    return {"input_ids": tokens[:, -width:], "attention_mask": mask}


def _step(network: "PreTrainedModel", lean_step: TokenStep | None, rows: Rows) -> "Tensor":
    """Return the logits of every row's next token (rows × vocabulary).

    The last token of each row is added to the cache. `lean_step`, if there is one, computes the
    same as the network with fewer operations.
    """
    tokens = rows.tokens.new_tensor([[response[-1]] for response in rows.response_tokens])
    rows.mask = _append_column(rows.mask, rows.mask.new_ones(len(rows), 1))
    rows.tokens = _append_column(rows.tokens, tokens)
    mask, positions = _mask_as_read(network, rows.mask), rows.positions
    rows.positions = positions + 1
    if lean_step is not None:
        return lean_step(tokens, mask, positions[0], rows.cache)
    output = network(
        input_ids=tokens,
        attention_mask=mask,
        position_ids=positions_as_read(network, positions),
        past_key_values=rows.cache,
        use_cache=True,
        logits_to_keep=1,
    )
    scores: Tensor = output.logits[:, -1]
    return scores


def _mask_as_read(network: "PreTrainedModel", mask: "Tensor") -> "Tensor | None":
    """Return the mask that transformers would make for one token per row; None without padding."""
    text = network.config.get_text_config()
    if text._attn_implementation not in ("sdpa", STEPS_IN_FLOAT32):
        return mask
    return None if mask.all() else mask[:, None, None].bool()


def _append_tokens(
    rows: Rows, scores: "Tensor", requests: Sequence[ChatRequest], samplings: Sequence[Sampling]
) -> None:
    """Choose the next token of every row by its logits, and append it to the response.

    Raises:
        ModelError: the largest logit of a row is NaN or infinite.
    """
    keys = [requests[index].key for index in rows.request_indices]
    positions = [len(response_tokens) for response_tokens in rows.response_tokens]
    largest = scores.amax(dim=1)
    # Padding is replaced by the row's last token, so that penalties see tokens of the row only.
    own_tokens = rows.tokens.where(rows.mask.bool(), rows.tokens[:, -1:])
    next_tokens = [0] * len(rows)
    rows_by_sampling = defaultdict[Sampling, list[int]](list)
    for row, index in enumerate(rows.request_indices):
        rows_by_sampling[samplings[index]].append(row)
    for sampling, group in rows_by_sampling.items():
        all_rows, numbers = len(group) == len(rows), None
        if sampling.temperature != 0.0:
            numbers = sampling.numbers(
                [keys[row] for row in group],
                [positions[row] for row in group],
                device=scores.device,
            )
        candidates = (scores, own_tokens) if all_rows else (scores[group], own_tokens[group])
        group_responses = [rows.response_tokens[row] for row in group]
        tokens = sampling.choose(*candidates, numbers, group_responses).argmax(dim=1).tolist()
        for row, token in zip(group, tokens, strict=True):
            next_tokens[row] = token
    check_finite(largest, keys, positions)
    for response_tokens, token in zip(rows.response_tokens, next_tokens, strict=True):
        response_tokens.append(token)


def _is_finished(
    response_tokens: Sequence[int], request: ChatRequest, ends: Sequence[int], decode: Decode
) -> bool:
    """Return True if a response has reached an end token, its limit or a stop string."""
    if response_tokens[-1] in ends or len(response_tokens) >= request.max_new_tokens:
        return True
    return at_stop(response_tokens, request.stop, decode)


def _append_column(columns: "Tensor", last: "Tensor") -> "Tensor":
    """Return `columns` (rows × length) with more columns on the right."""
    import torch

    return torch.cat([columns, last], dim=1)


def join_rows(several: Sequence[Rows]) -> Rows:
    """Return all rows together, padded on the left to the length of the longest cache.

    The caches of the given rows are emptied.
    """
    import torch
    from torch.nn.functional import pad

    from harness.models.backends.kv_cache import preallocated_cache

    longest = max(rows.mask.shape[1] for rows in several)
    padding = [longest - rows.mask.shape[1] for rows in several]

    def joined(parts: "Sequence[Tensor]", *last_dimension: int) -> "Tensor":
        """Join tensors along rows, padded on the left in the dimension of the cache's length.

        `last_dimension` is (0, 0) for tensors with one more dimension after that.
        """
        padded = [
            pad(part, (*last_dimension, n_padding, 0))
            for part, n_padding in zip(parts, padding, strict=True)
        ]
        return torch.cat(padded)

    layers = []
    for same_layer in zip(*(rows.cache.layers for rows in several), strict=True):
        keys = joined([layer.keys for layer in same_layer], 0, 0)
        layers.append((keys, joined([layer.values for layer in same_layer], 0, 0)))
        for layer in same_layer:  # layer by layer, so that only one is in memory twice
            layer.reset()
    return Rows(
        [index for rows in several for index in rows.request_indices],
        [response_tokens for rows in several for response_tokens in rows.response_tokens],
        joined([rows.tokens for rows in several]),
        joined([rows.mask for rows in several]),
        torch.cat([rows.positions for rows in several], dim=1),
        preallocated_cache(layers),
    )


def _keep_rows(rows: Rows, chosen: list[int]) -> Rows | None:
    """Return the chosen rows, without padding that all of them have; None if none is chosen."""
    if not chosen:
        return None
    # the first column that is not padding in all of these rows
    start = int(rows.mask[chosen].any(dim=0).int().argmax())
    request_indices = [rows.request_indices[row] for row in chosen]
    return chosen_rows(rows, chosen, request_indices=request_indices, start=start, release=True)


def chosen_rows(
    rows: Rows,
    chosen: list[int],
    *,
    request_indices: list[int],
    start: int = 0,
    release: bool = False,
) -> Rows:
    """Return copies of rows.

    Args:
        rows: The rows to copy from.
        chosen: Indices of the rows; an index may occur several times.
        request_indices: Indices of the requests that the copies answer.
        start: First column of the cache to copy.
        release: Empty the cache of `rows`.
    """
    from harness.models.backends.kv_cache import preallocated_cache

    row_indices = rows.mask.new_tensor(chosen)
    layers = []
    for layer in rows.cache.layers:
        layers.append((layer.keys[row_indices, :, start:], layer.values[row_indices, :, start:]))
        if release:  # layer by layer, so that only one is in memory twice
            layer.reset()
    return Rows(
        request_indices,
        [list(rows.response_tokens[row]) for row in chosen],
        rows.tokens[row_indices, start:],
        rows.mask[row_indices, start:],
        rows.positions[:, row_indices],
        preallocated_cache(layers),
    )

"""Requests of unequal responses, answered together: a row whose response has ended makes room.

`generate` of transformers answers a batch until its longest response ends, and rows that have ended
go on as padding. Here the next requests take their places: prompts are read apart, and their keys
and values are put beside those of the rows that go on, both padded on the left to one length.
Positions were turned into keys when these were made, so padding changes nothing but the last bits.
The next requests may depend on earlier responses: a `RequestSource` supplies them when rows are
free.
"""

from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from harness.chat import ChatRequest
from harness.models.backends.cpu_kernels import STEPS_IN_FLOAT32
from harness.models.backends.inputs import POSITIONS
from harness.models.backends.sampling import Sampling, check_finite
from harness.models.backends.stop_strings import Decode, at_stop
from harness.models.backends.token_step import TokenStep, token_step

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BatchFeature, DynamicCache, PreTrainedModel, Qwen2VLModel

SUPPORTED = frozenset({"qwen2_vl", "qwen2_5_vl", "qwen3_vl"})
"""Architectures whose rows may be parted and joined: plain attention over one growing cache."""
TEXT_ALONE = frozenset({"llama", "qwen2", "qwen3"})
"""Such architectures that read text alone: positions count tokens and nothing else."""


def supports_continuous_batching(network: "PreTrainedModel", model_type: str) -> bool:
    """Return True if rows of this network may be parted and joined."""
    text = network.config.get_text_config()
    sliding = getattr(text, "use_sliding_window", False)
    sees = model_type in SUPPORTED and _rope_module(network) is not None
    return (sees or model_type in TEXT_ALONE) and not sliding


class PromptBatch(NamedTuple):
    """Requests whose prompts are read together."""

    places: list[int]
    inputs: "BatchFeature"
    """The processor's tensors for the different prompts among them; perhaps with their
    `token_positions`, as `position_ids`."""
    alike: list[int]
    """Index among `inputs` of each request's prompt."""
    prefix: "PrefixCache | None" = None
    """Beginnings of the prompts in `inputs`, if they were read before."""


class PrefixCache(NamedTuple):
    """Beginnings of prompts, their media among them, that need not be read again."""

    rows: "Rows"
    lengths: list[int]
    """Number of tokens of each prompt after its beginning; at least one."""


class RequestSource(Protocol):
    """A supply of requests to answer."""

    def take(self, free: int) -> PromptBatch | None:
        """Return the next part, of at most `free` prompts; None: nothing is to begin now.

        Of more requests than `free`, the first ones begin, the others as rows become free. Where
        nothing is under way and nothing is to begin, everything is answered.
        """
        ...


def least_to_begin(size: int, *, small: bool = False) -> int:
    """Return the least number of prompts to begin at once after the first ones, of `size` rows.

    A pass of prompts costs more than its prompts do: as much as 8 steps of pocket, which is `small`
    (`is_small`), and as 3 of a network of 235 million numbers on a CPU. Waiting for more free rows
    costs the steps in which they are empty. These numbers are constants, because times that are
    measured differ from run to run, and with them the last bits of responses in half precision.
    """
    return max(1, size // 2 if small else size // 4)


@dataclass(slots=True)
class Rows:
    """Requests under way, one per row. Everything is padded on the left, and where a prompt's
    beginning was known, between that and the rest too.
    """

    places: list[int]
    written: list[list[int]]
    """The tokens of each response so far; the last one is not in the cache yet."""
    tokens: "Tensor"
    """Tokens in the cache, prompts and responses (rows × length of the cache)."""
    mask: "Tensor"
    """1 where a row holds a token of its own (rows × length of the cache)."""
    positions: "Tensor"
    """Position of each row's next token, one for time, height and width (1 × rows × 1)."""
    cache: "DynamicCache"
    """Keys and values of every layer (rows × heads × length × width)."""

    def __len__(self) -> int:
        return len(self.places)


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
    """Yield places of requests with the tokens of their responses, end token included.

    Args:
        network: One that `supports_continuous_batching`.
        requests: Requests whose places the source gives; more may be added later.
        source: Supplies the next requests. A response that has ended is yielded before more is
            taken.
        size: Largest number of rows.
        ends: Tokens that end a response.
        samplings: Rule of each request for the choice of tokens.
        decode: Function from tokens to text, in which stop strings are searched for.

    Raises:
        ModelError: the largest logit of a row is NaN or infinite.
    """
    rows: Rows | None = None
    read: _PrefilledPrompts | None = None
    lean = token_step(network)
    while True:
        while free := size - (0 if rows is None else len(rows)):
            if read is not None:
                if free < min(least_to_begin(size), len(read.places)):
                    break
            elif part := source.take(free):
                read = _prefill(network, part)
            else:
                break
            started, scores, read = _start_rows(read, free)
            _append_tokens(started, scores, requests, samplings)
            rows = started if rows is None else join_rows([rows, started])
        if rows is None:
            return
        written = list(zip(rows.places, rows.written, strict=True))
        ended = [_is_finished(tokens, requests[at], ends, decode) for at, tokens in written]
        yield from compress(written, ended)
        if any(ended):
            rows = _keep_rows(rows, [at for at, over in enumerate(ended) if not over])
        else:
            _append_tokens(rows, _step(network, lean, rows), requests, samplings)


class _PrefilledPrompts(NamedTuple):
    """Prompts that were read, for requests that are not begun."""

    rows: Rows
    """Rows, one per prompt, without a response yet."""
    scores: "Tensor"
    """Scores of the first token (prompts × vocabulary)."""
    places: list[int]
    alike: list[int]
    """Index of each request's prompt."""


def _rope_module(network: "PreTrainedModel") -> "Qwen2VLModel | None":
    """Return the module that computes the positions of images, even if wrapped; None: none does."""
    return next(
        (module for module in network.modules() if hasattr(type(module), "get_rope_index")), None
    )


def token_positions(network: "PreTrainedModel", inputs: Mapping[str, "Tensor"]) -> "Tensor":
    """Return positions of prompts' tokens (4 × rows × length): in text, time, height and width.

    They are those of `generate`, from the processor's tensors; of a network of text alone, the
    first (1 × rows × length). Nothing is kept in the network, which another thread may be using.
    """
    import torch

    mask: Tensor = inputs["attention_mask"]
    text = (mask.long().cumsum(dim=1) - 1).clamp(min=0)[None]
    if network.config.model_type in TEXT_ALONE:
        return text
    if not any(f"{kind}_grid_thw" in inputs for kind in ("image", "video")):
        return text.expand(4, -1, -1)
    rope = _rope_module(network)
    assert rope is not None, "supports_continuous_batching looked for it"
    space, _ = rope.get_rope_index(**inputs)
    return torch.cat([text, space])


def positions_as_read(network: "PreTrainedModel", positions: "Tensor") -> "Tensor":
    """Return positions as a network takes them: of text alone, rows × length."""
    return positions[0] if network.config.model_type in TEXT_ALONE else positions


def _prefill(network: "PreTrainedModel", part: PromptBatch) -> _PrefilledPrompts:
    from harness.models.backends.kv_cache import as_steps_read, preallocated_cache

    given, cache = dict(part.inputs), preallocated_cache([])
    positions, tokens = given.pop(POSITIONS, None), given["input_ids"]
    if positions is None:  # tensors that were made before the network was there
        positions = token_positions(network, given)
    if part.prefix is not None:
        given, cache = _suffix_inputs(tokens, *part.prefix), part.prefix.rows.cache
        positions = positions[..., -given["input_ids"].shape[1] :]
        tokens = _append_column(part.prefix.rows.tokens, given["input_ids"])
    output = network(
        **given,
        position_ids=positions_as_read(network, positions),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    order = list(range(len(tokens)))
    after, written = positions[-1:, :, -1:] + 1, [list[int]() for _ in order]
    cache = as_steps_read(network, cache)
    rows = Rows(order, written, tokens, given["attention_mask"], after, cache)
    return _PrefilledPrompts(rows, output.logits[:, -1], part.places, part.alike)


def _start_rows(
    read: _PrefilledPrompts, free: int
) -> "tuple[Rows, Tensor, _PrefilledPrompts | None]":
    """Rows of at most `free` requests, the scores of their first tokens, and what is left."""
    alike, later = read.alike[:free], read.alike[free:]
    rest = None
    if not later and alike == read.rows.places:  # each prompt once: as they are
        return replace(read.rows, places=read.places), read.scores, None
    if later:
        needed = sorted(set(later))
        start = int(read.rows.mask[needed].any(dim=0).int().argmax())
        rest = _PrefilledPrompts(
            chosen_rows(read.rows, needed, places=needed, start=start),
            read.scores[needed],
            read.places[free:],
            [needed.index(prompt) for prompt in later],
        )
    rows = chosen_rows(read.rows, alike, places=read.places[:free], release=True)
    return rows, read.scores[alike], rest


def _suffix_inputs(tokens: "Tensor", rows: Rows, lengths: list[int]) -> "dict[str, Tensor]":
    """Return the rest of prompts after their beginnings, padded on the left to one length.

    That padding lies between a beginning and the rest of its prompt, and is not attended to.
    """
    import torch

    width = max(lengths)
    places = torch.arange(width, device=tokens.device)
    fresh = places >= width - torch.tensor(lengths, device=tokens.device)[:, None]
    mask = _append_column(rows.mask, fresh.to(rows.mask))
    return {"input_ids": tokens[:, -width:], "attention_mask": mask}


def _step(network: "PreTrainedModel", lean: TokenStep | None, rows: Rows) -> "Tensor":
    """Return the scores of every row's next token; the last token of each enters the cache.

    They are those of the network, by `lean` where there is one.
    """
    tokens = rows.tokens.new_tensor([[written[-1]] for written in rows.written])
    rows.mask = _append_column(rows.mask, rows.mask.new_ones(len(rows), 1))
    rows.tokens = _append_column(rows.tokens, tokens)
    mask, positions = _mask_as_read(network, rows.mask), rows.positions
    rows.positions = positions + 1
    if lean is not None:
        return lean(tokens, mask, positions[0], rows.cache)
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
    """Return the mask of single queries as transformers would make it, by a dozen operations."""
    text = network.config.get_text_config()
    if text._attn_implementation not in ("sdpa", STEPS_IN_FLOAT32):
        return mask
    return None if mask.all() else mask[:, None, None].bool()


def _append_tokens(
    rows: Rows, scores: "Tensor", requests: Sequence[ChatRequest], samplings: Sequence[Sampling]
) -> None:
    """Add the chosen token to every row's response."""
    keys = [requests[place].key for place in rows.places]
    positions = [len(written) for written in rows.written]
    largest = scores.amax(dim=1)
    # A row's last token in place of its padding, which does not belong to the row.
    own = rows.tokens.where(rows.mask.bool(), rows.tokens[:, -1:])
    chosen = [0] * len(rows)
    alike = defaultdict[Sampling, list[int]](list)  # rows that are chosen from together
    for at, place in enumerate(rows.places):
        alike[samplings[place]].append(at)
    for sampling, several in alike.items():
        whole, numbers = len(several) == len(rows), None
        if sampling.temperature != 0.0:
            numbers = sampling.numbers(
                [keys[at] for at in several],
                [positions[at] for at in several],
                device=scores.device,
            )
        chosen_from = (scores, own) if whole else (scores[several], own[several])
        tokens = sampling.choose(*chosen_from, numbers).argmax(dim=1).tolist()
        for at, token in zip(several, tokens, strict=True):
            chosen[at] = token
    check_finite(largest, keys, positions)
    for written, token in zip(rows.written, chosen, strict=True):
        written.append(token)


def _is_finished(
    written: Sequence[int], request: ChatRequest, ends: Sequence[int], decode: Decode
) -> bool:
    over = written[-1] in ends or len(written) >= request.max_new_tokens
    return over or at_stop(written, request.stop, decode)


def _append_column(columns: "Tensor", last: "Tensor") -> "Tensor":
    """Return `columns` with one more token per row."""
    import torch

    return torch.cat([columns, last], dim=1)


def join_rows(several: Sequence[Rows]) -> Rows:
    """Rows put together, padded on the left to the length of the longest ones.

    They give up their caches.
    """
    import torch
    from torch.nn.functional import pad

    from harness.models.backends.kv_cache import preallocated_cache

    longest = max(rows.mask.shape[1] for rows in several)
    before = [longest - rows.mask.shape[1] for rows in several]

    def joined(parts: "Sequence[Tensor]", *after: int) -> "Tensor":
        pairs = zip(parts, before, strict=True)
        return torch.cat([pad(part, (*after, more, 0)) for part, more in pairs])

    layers = []
    for alike in zip(*(rows.cache.layers for rows in several), strict=True):
        keys = joined([layer.keys for layer in alike], 0, 0)
        layers.append((keys, joined([layer.values for layer in alike], 0, 0)))
        for layer in alike:  # layer by layer, so that memory holds little twice
            layer.reset()
    return Rows(
        [place for rows in several for place in rows.places],
        [written for rows in several for written in rows.written],
        joined([rows.tokens for rows in several]),
        joined([rows.mask for rows in several]),
        torch.cat([rows.positions for rows in several], dim=1),
        preallocated_cache(layers),
    )


def _keep_rows(rows: Rows, chosen: list[int]) -> Rows | None:
    """Select rows and drop the padding that all of them have; None if none is chosen."""
    if not chosen:
        return None
    start = int(rows.mask[chosen].any(dim=0).int().argmax())
    places = [rows.places[at] for at in chosen]
    return chosen_rows(rows, chosen, places=places, start=start, release=True)


def chosen_rows(
    rows: Rows,
    chosen: list[int],
    *,
    places: list[int],
    start: int = 0,
    release: bool = False,
) -> Rows:
    """Return copies of rows, perhaps several of one, for `places`, from column `start` on.

    With `release`, the rows that are copied give up their cache.
    """
    from harness.models.backends.kv_cache import preallocated_cache

    index = rows.mask.new_tensor(chosen)
    layers = []
    for layer in rows.cache.layers:
        layers.append((layer.keys[index, :, start:], layer.values[index, :, start:]))
        if release:  # layer by layer, so that memory holds little twice
            layer.reset()
    return Rows(
        places,
        [list(rows.written[at]) for at in chosen],
        rows.tokens[index, start:],
        rows.mask[index, start:],
        rows.positions[:, index],
        preallocated_cache(layers),
    )

"""Responses of a stand-in network: drawn from the grammar of the request, some with errors.

Random weights would write noise, which no parser reads, so that rewards, segmenters and second
turns would never run. In a rehearsed process, and in no other, `install` forces the tokens of each
response to a drawn text; the network still runs for each token, so that log-probabilities, losses,
caches and continuous batching are real.

A text depends only on the request, its key (sample, rollout, turn) and the seed.
"""

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.chat import ChatRequest
from harness.coordinates import normalized_to
from harness.models.backends.sampling import Sampling
from harness.rehearsal import drawn
from harness.rehearsal.grammars import grammars
from harness.rehearsal.malformed import KINDS
from harness.rehearsal.wording import Asked, Grammar

if TYPE_CHECKING:
    from torch import Tensor

    from harness.models.backends.sampling import TokenChoice
    from harness.models.backends.transformers import TransformersChat

WELL_FORMED = 0.7
"""Share of responses without a fault."""
WELL_FORMED_TURN = 0.9
"""Share of turns of a conversation without a fault; a rollout has about three turns."""
TURN_METHODS = ("dt_r1", "jit", "sam3_agent")
"""Methods of several turns."""
MAX_REPEATED = 512
"""A cut response is repeated up to the limit of new tokens if that is at most this."""
OWN_GRAMMARS: list[Grammar] = []
"""Grammars of prompts of the user's own, in this process and those that it forks."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawn response."""

    text: str
    grammar: str
    """Name of the grammar of the request."""
    fault: str = ""
    """Kind of its fault (`malformed.KINDS`); empty: it is well-formed."""


def draw(asked: Asked, *, seed: int = 0) -> Drawn:
    """Return a random response to a request.

    Args:
        asked: The request.
        seed: Another seed draws other responses.
    """
    grammar = grammar_of(asked)
    filled = grammar.filled(asked) or {}
    numbers = _random(asked, seed)
    has_turns = grammar.name.partition("/")[0] in TURN_METHODS
    is_well_formed = numbers.random() < (WELL_FORMED_TURN if has_turns else WELL_FORMED)
    text = grammar.write(asked, filled, numbers)
    fault = ""
    if not is_well_formed:
        kinds = list(KINDS)
        numbers.shuffle(kinds)
        for kind in kinds:
            broken = KINDS[kind](text, numbers)
            if not grammar.reads(asked, filled, broken):
                text, fault = broken, kind
                break
    return Drawn(_continued(text, asked.written, numbers, turns=has_turns), grammar.name, fault)


def grammar_of(asked: Asked) -> Grammar:
    """Return the grammar of a request: a method's, the user's own prompt's, or that of any text."""
    *named, any_text = grammars()
    candidates = (*named, *OWN_GRAMMARS, any_text)
    return next(grammar for grammar in candidates if grammar.filled(asked) is not None)


def _random(asked: Asked, seed: int) -> random.Random:
    content = "\x00".join((str(seed), asked.key, asked.system, asked.text, asked.written))
    digest = hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=8).digest()
    return random.Random(digest)


def _continued(text: str, written: str, numbers: random.Random, *, turns: bool) -> str:
    """Return a text without the part that the response already has, such as an opened `<think>`."""
    begun = written.rstrip()
    if begun.endswith("<think>"):
        own = text.removeprefix("<think>")
        return own if own != text else f"{drawn.thoughts(numbers)}\n</think>\n\n{text}"
    for tag in () if turns else ("<answer>", "</think>"):
        if begun.endswith(tag):
            return text.partition(tag)[2] or text
    return text


# -- in this process --------------------------------------------------------------------------


def asked_of(chat: "TransformersChat", request: ChatRequest) -> Asked:
    """Return a request to a network in this process as `draw` takes it."""
    opening = "" if request.written else chat.opening
    injected = chat.decode(request.written) if request.written else ""
    return Asked(
        text=request.text,
        system=request.system or "",
        extent=_extent(chat, request),
        written=f"{opening}{request.prefix}{injected}",
        key=request.key,
    )


def _extent(chat: "TransformersChat", request: ChatRequest) -> tuple[int, int]:
    side = normalized_to(chat.coordinates)
    if side is not None:
        return side, side
    return chat.canvas(request) if request.media else (1000, 1000)


_TOKENIZERS: dict[Path, Any] = {}


def _tokenizer(chat: "TransformersChat") -> Any:
    """Return a copy of the processor's tokenizer, which another thread may be using."""
    if chat.folder not in _TOKENIZERS:
        _TOKENIZERS[chat.folder] = deepcopy(chat.processor.tokenizer)
    return _TOKENIZERS[chat.folder]


def tokens_of(chat: "TransformersChat", request: ChatRequest, *, seed: int) -> tuple[int, ...]:
    """Return the tokens of the drawn response, its end token included.

    A cut response is repeated up to the limit of new tokens, if that is at most `MAX_REPEATED`.
    """
    response = draw(asked_of(chat, request), seed=seed)
    encoded = _tokenizer(chat)(response.text, add_special_tokens=False)
    written, end = tuple(encoded["input_ids"]), chat.end_tokens[0]
    if response.fault == "cut" and written and request.max_new_tokens <= MAX_REPEATED:
        rounds = request.max_new_tokens // len(written) + 1
        return (written * rounds)[: request.max_new_tokens]
    return (*written, end)


@dataclass(frozen=True, kw_only=True)
class Spoken(Sampling):
    """A sampling rule that chooses the tokens of a given text, one after another.

    It counts the tokens, so that an object serves for only one response of one call.
    """

    tokens: tuple[int, ...]
    _place: Iterator[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_place", iter(range(1 << 62)))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def choose(
        self,
        scores: "Tensor",
        own: "Tensor",
        numbers: "Tensor | None",
        written: Sequence[Sequence[int]] = (),
    ) -> "Tensor":
        """Return logits (1 × vocabulary) in which only the next token's is finite."""
        scores = Sampling.choose(self, scores, own, numbers, written)
        place = min(next(self._place), len(self.tokens) - 1)
        return _forced(scores, [self.tokens[place]])


@dataclass(frozen=True, slots=True)
class SpokenBatch:
    """A logits processor that does so for all rows of one call of `generate`."""

    choice: "TokenChoice"
    tokens: Sequence[tuple[int, ...]]
    """Tokens of each row."""

    def __call__(self, input_ids: "Tensor", scores: "Tensor") -> "Tensor":
        """Return logits (rows × vocabulary) in which one of each row is finite."""
        scores = self.choice(input_ids, scores)
        place = input_ids.shape[1] - self.choice.prompt_length
        return _forced(scores, [row[min(place, len(row) - 1)] for row in self.tokens])


def _forced(scores: "Tensor", tokens: Sequence[int]) -> "Tensor":
    """Return logits, rows × vocabulary, of 0 for a row's token and -inf for all others."""
    import torch

    index = torch.tensor(tokens, device=scores.device)[:, None]
    return torch.full_like(scores, float("-inf")).scatter(1, index, 0.0)


def install(seed: int = 0) -> Callable[[], None]:
    """Force the responses of every network that `transformers` runs in this process.

    Returns:
        A function that undoes it.
    """
    from harness.models.backends.transformers import TransformersChat

    samplings, token_choice = TransformersChat.samplings, TransformersChat.token_choice

    def spoken(self: TransformersChat, requests: Sequence[ChatRequest]) -> list[Sampling]:
        rules = samplings(self, requests)
        return [
            Spoken(**_fields(rule), tokens=tokens_of(self, request, seed=seed))
            for rule, request in zip(rules, requests, strict=True)
        ]

    def spoken_batch(
        self: TransformersChat, requests: Sequence[ChatRequest], **given: Any
    ) -> SpokenBatch:
        choice = token_choice(self, requests, **given)
        return SpokenBatch(choice, [tokens_of(self, request, seed=seed) for request in requests])

    def undo() -> None:
        TransformersChat.samplings = samplings  # type: ignore[method-assign]
        TransformersChat.token_choice = token_choice  # type: ignore[method-assign]

    TransformersChat.samplings = spoken  # type: ignore[assignment, method-assign]
    TransformersChat.token_choice = spoken_batch  # type: ignore[assignment, method-assign]
    return undo


def _fields(rule: Sampling) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in Sampling.__dataclass_fields__}

"""Rollouts and the replies to their second requests, written in one go.

The prompt of a group is read once; where its rollouts are not all begun together
(`generation_micro_batch_size`), the others go on from its last token. A rollout that has ended
leads to its second request, if the method has any, which takes the place of one that has ended as
well (`harness.models.backends.rolling`): written one pass after the other, each would wait for its
longest reply. Of a second request that begins as the first one does, up to its last medium, only
the rest is read. Where tokens are drawn by counters, both passes say what they would say apart, but
for what the last bits of logits decide.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from harness.model import ChatRequest
from harness.models.backends import rolling
from harness.models.backends.sampling import Sampling
from harness.trainers.grpo.encoding import KINDS, joined, patches

if TYPE_CHECKING:
    from torch import device

Prompt = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Choice(Sampling):
    """How a rollout's tokens are chosen."""

    keyed: bool
    """By counters; otherwise by PyTorch's generator."""
    never: tuple[int, ...] = ()
    """Tokens that are not written: those of media, which would want patches."""

    def numbers(self, keys: Sequence[str], positions: Sequence[int], *, device: "device") -> Tensor:
        """Uniform numbers of the rows (rows × 1, float64)."""
        if self.keyed:
            return super().numbers(keys, positions, device=device)
        return torch.rand(len(keys), 1, dtype=torch.float64, device=device)

    def chosen(self, scores: Tensor, own: Tensor, numbers: Tensor | None) -> Tensor:
        """Logits (rows × vocabulary) to logits whose largest is the choice."""
        barred = torch.tensor(self.never, dtype=torch.long, device=scores.device)
        return super().chosen(scores.index_fill(1, barred, -torch.inf), own, numbers)


@dataclass(kw_only=True)
class Passes:
    """A source of requests: first ones, and what each may lead to once it is answered.

    Second requests stand in `requests` behind the first ones, in their order.
    """

    firsts: Sequence[ChatRequest]
    prompts: Sequence[Prompt]
    """The tensors of the first requests."""
    leads_to: Callable[[int, Sequence[int]], ChatRequest] | None
    """The second request of a place, whose rollout's tokens are given; None: there are none."""
    encode: Callable[
        [Sequence[ChatRequest], Sequence[tuple[ChatRequest, Prompt]]], Sequence[Prompt]
    ]
    """Encodes second requests, beside each the first one that led to it and its tensors."""
    padding: int
    size: int
    """Rows at once, at most."""
    device: "device"
    requests: list[ChatRequest] = field(init=False)
    written: dict[int, list[int]] = field(default_factory=dict, init=False)
    """Tokens by place, of what is answered."""

    def __post_init__(self) -> None:
        self.requests = [*self.firsts, *self.firsts]  # the latter until they are known
        self._unbegun = deque(range(len(self.firsts)))
        self._waiting: deque[int] = deque()
        self._first_ones = 0  # that are answered
        self._encoded: dict[ChatRequest, Prompt] = {}
        self._read: dict[int, rolling.Rows] = {}
        """Prompts that were read, by identity, for requests that begin alike."""
        turns = 1 if self.leads_to is None else 2
        self._to_come = {
            one: turns * count for one, count in Counter(map(id, self.prompts)).items()
        }
        """Requests that may still begin like each prompt."""

    def take(self, free: int) -> rolling.Part | None:
        """First requests before second ones; after the very first, a share of the rows at once."""
        share = rolling.share_of(self.size)
        if self._unbegun:
            wanted = min(self.size, len(self._unbegun))
            begun = len(self._unbegun) < len(self.firsts)
            return self._begin(free) if free >= (min(wanted, share) if begun else wanted) else None
        wanted = min(share, len(self._waiting))
        few = wanted < share and self._first_ones < len(self.firsts)
        return self._begin_again(free) if wanted and free >= wanted and not few else None

    def _begin(self, free: int) -> rolling.Part:
        """First requests: of prompts that were not read yet, or of those that were."""
        read = id(self.prompts[self._unbegun[0]]) in self._read
        places: list[int] = []
        while self._unbegun and len(places) < free:
            if (id(self.prompts[self._unbegun[0]]) in self._read) != read:
                break
            places.append(self._unbegun.popleft())
        pairs = [(self.prompts[place], self.prompts[place]) for place in places]
        return self._part(places, pairs, read=read)

    def _begin_again(self, free: int) -> rolling.Part:
        """Second requests."""
        places = [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
        asked = [replace(self.requests[place], key="") for place in places]
        before = [place - len(self.firsts) for place in places]
        new = {
            one: (self.firsts[place], self.prompts[place])
            for one, place in zip(asked, before, strict=True)
            if one not in self._encoded
        }
        if new:
            made = self.encode(list(new), list(new.values()))
            self._encoded.update(zip(new, made, strict=True))
        firsts = (self.prompts[place] for place in before)
        pairs = [(self._encoded[one], first) for one, first in zip(asked, firsts, strict=True)]
        return self._part(places, pairs, read=True)

    def _part(
        self, places: list[int], pairs: Sequence[tuple[Prompt, Prompt]], *, read: bool
    ) -> rolling.Part:
        """The part of some places: the prompt of each, and a first one that it may begin like."""
        different = {id(prompt): (prompt, first) for prompt, first in pairs}
        batch = joined([prompt for prompt, _ in different.values()], padding=self.padding)
        known = self._known([*different.values()]) if read else None
        inputs = {
            name: value.to(self.device)
            for name, value in batch.items()
            if known is None or not name.startswith("pixel")  # were seen when that was read
        }
        for _, first in pairs:
            self._to_come[id(first)] -= 1
        self._read = {one: rows for one, rows in self._read.items() if self._to_come[one]}
        order = {one: at for at, one in enumerate(different)}
        keep = None
        if not read and any(self._to_come[one] for one in different):
            keep = partial(self._keep, list(different))
        return rolling.Part(places, inputs, [order[id(prompt)] for prompt, _ in pairs], known, keep)

    def _keep(self, names: list[int], rows: rolling.Rows) -> None:
        for at, name in enumerate(names):
            if self._to_come[name]:
                start = int(rows.mask[at].int().argmax())
                self._read[name] = rolling.chosen_rows(rows, [at], places=[at], start=start)

    def _known(self, pairs: Sequence[tuple[Prompt, Prompt]]) -> rolling.Known | None:
        """The beginnings of prompts, if all of them begin like their first ones."""
        lengths = [alike_up_to(first, prompt) for prompt, first in pairs]
        if not all(lengths):
            return None
        found = [
            rolling.chosen_rows(self._read[id(first)], [0], places=[0], end=length)
            for (_, first), length in zip(pairs, lengths, strict=True)
        ]
        rest = [
            prompt["input_ids"].shape[1] - length
            for (prompt, _), length in zip(pairs, lengths, strict=True)
        ]
        return rolling.Known(rolling.joined(found), rest)

    def write(self, replies: Iterator[tuple[int, list[int]]]) -> None:
        """Let all be written, and ask again for each first one that ends."""
        count = len(self.firsts)
        for place, tokens in replies:
            self.written[place] = tokens
            self._first_ones += place < count
            if place < count and self.leads_to is not None:
                self.requests[place + count] = self.leads_to(place, tokens)
                self._waiting.append(place + count)


def alike_up_to(one: Prompt, other: Prompt) -> int:
    """Tokens with which two prompts begin, if all that is no text is among them; otherwise 0.

    The other one has at least one more.
    """
    first, second = one["input_ids"][0], other["input_ids"][0]
    shorter = min(len(first), len(second) - 1)
    differ = (first[:shorter] != second[:shorter]).nonzero()
    length = int(differ[0]) if len(differ) else shorter
    media = patches([other])
    same = media.keys() == patches([one]).keys() and all(
        torch.equal(value, one[name]) for name, value in media.items()
    )
    kinds = [
        prompt[name][0, length:] for prompt in (one, other) for name in KINDS if name in prompt
    ]
    told = bool(kinds) or not media  # otherwise nobody knows where the media are
    return length if same and told and not any(kind.any() for kind in kinds) else 0

"""Rollouts and the replies to their second requests, written in one go.

The prompt of a group is read once. A rollout that has ended leads to its second request, if the
method has any, which takes the place of one that has ended as well
(`harness.models.backends.rolling`): written one pass after the other, each would wait for its
longest reply. Of a second request that begins as the first one does, up to its last medium, only
the rest is read. Where tokens are drawn by counters, both passes say what they would say apart.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    encode: Callable[[Sequence[ChatRequest]], Sequence[Prompt]]
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
        self._read: dict[int, rolling.Rows] = {}
        self._first_ones = 0  # that are answered

    def take(self, free: int) -> rolling.Part | None:
        """First requests before second ones; these a share at a time while there are first ones."""
        if self._unbegun:
            wanted = min(self.size, len(self._unbegun))
            enough = min(wanted, rolling.share_of(self.size)) if self.written else wanted
            return self._part(self._unbegun, free) if free >= enough else None
        under_way = self._first_ones < len(self.firsts)
        few = len(self._waiting) < rolling.share_of(self.size)
        if not self._waiting or not free or (few and under_way):
            return None
        return self._part(self._waiting, free)

    def _part(self, queue: deque[int], free: int) -> rolling.Part:
        places = [queue.popleft() for _ in range(min(free, len(queue)))]
        count = len(self.firsts)
        first = places[0] < count
        if first:
            prompts = [self.prompts[place] for place in places]
        else:
            prompts = list(self.encode([self.requests[place] for place in places]))
        different = {id(prompt): place for place, prompt in zip(places, prompts, strict=True)}
        order = {one: at for at, one in enumerate(different)}
        by_id = {id(prompt): prompt for prompt in prompts}
        batch = joined([by_id[one] for one in different], padding=self.padding)
        inputs = {name: value.to(self.device) for name, value in batch.items()}
        known = None
        if not first:
            known = self._known([(place - count, by_id[one]) for one, place in different.items()])
        return rolling.Part(
            places, inputs, [order[id(prompt)] for prompt in prompts], known,
            partial(self._keep, list(different)) if first and self.leads_to else None,
        )  # fmt: skip

    def _keep(self, names: list[int], rows: rolling.Rows) -> None:
        """Remember prompts that were read, for the second requests that begin alike."""
        for at, name in enumerate(names):
            start = int(rows.mask[at].int().argmax())
            self._read[name] = rolling.chosen_rows(rows, [at], places=[at], start=start)

    def _known(self, asked: Sequence[tuple[int, Prompt]]) -> rolling.Known | None:
        """The beginnings of prompts that the rollouts of these places led to, if each has one."""
        found, lengths = [], []
        for place, prompt in asked:
            before = self.prompts[place]
            length = alike_up_to(before, prompt)
            if not length:
                return None
            rows = self._read[id(before)]
            found.append(rolling.chosen_rows(rows, [0], places=[place], end=length))
            lengths.append(prompt["input_ids"].shape[1] - length)
        return rolling.Known(rolling.joined(found), lengths)

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
    kinds = (prompt[name][0, length:] for prompt in (one, other) for name in KINDS
             if name in prompt)  # fmt: skip
    return length if same and not any(kind.any() for kind in kinds) else 0

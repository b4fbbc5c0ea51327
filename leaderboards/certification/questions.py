"""Questions asked in both ways, and the view that the examined network has of each.

Whichever side has its network in this process is examined: it tells how probable it finds each
token of the other side's response.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import NamedTuple

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.leaderboards.certification.pairs import (
    TENSORS,
    TEXT,
    Pair,
    Part,
    deviation,
    residual,
)
from harness.leaderboards.certification.suspects import Change
from harness.observation import Examination, Floats, Observation, Variation


class Way(NamedTuple):
    """The same tokens that two responses begin with."""

    tokens: int
    """Tokens that were compared, the first that differs included."""
    turns: int
    """1 if the responses go apart there."""
    early: int | None
    """Place of the side whose response ends where the other's goes on."""


@dataclass
class Questions:
    """All questions so far. The reference is the side that is examined, the other is held to it."""

    chats: tuple[Chat, Chat]
    reference: int | None = None
    """Place of the side that is examined; None: neither network is in this process."""
    pairs: list[Pair] = field(default_factory=list)
    parts: dict[str, list[Part]] = field(default_factory=dict)
    views: list[Examination | None] = field(default_factory=list)

    @property
    def other(self) -> int:
        """Place of the other side."""
        return 0 if self.reference == 1 else 1

    @property
    def letter(self) -> str:
        """Letter of the other side."""
        return "AB"[self.other]

    @property
    def reference_letter(self) -> str:
        """Letter of the side that is examined."""
        return "AB"[1 - self.other]

    def ask(self, a: Sequence[ChatRequest], b: Sequence[ChatRequest]) -> None:
        """Send requests to both sides, and compare what the two networks were given."""
        observed = zip(a, b, self.chats[0].observe(a), self.chats[1].observe(b), strict=True)
        for left, right, *seen in observed:
            pair = Pair(requests=(left, right), seen=(seen[0], seen[1]))
            for part in pair.parts():
                self.parts.setdefault(part.aspect, []).append(part)
            if not self.pairs:
                self.reference = self._examined_side(pair)
            # Equal pixels need no explanation, and take much memory.
            tensors = self.parts[TENSORS][-1].equal is False
            light = [
                replace(
                    side,
                    images=None,
                    tensors=side.tensors if tensors else None,
                    logprobs=self._aligned(side),
                )
                for side in seen
            ]
            self.pairs.append(replace(pair, seen=(light[0], light[1])))
            view = self.view(len(self.pairs) - 1)
            self.views.append(view and replace(view, tensors=view.tensors if tensors else {}))

    def _examined_side(self, pair: Pair) -> int | None:
        for side, chat in enumerate(self.chats):
            if chat.examine(Variation(request=pair.requests[side]), ()) is not None:
                return side
        return None

    def tokens(self, response: ChatResponse) -> tuple[int, ...]:
        """Return the tokens of a response, by either side's tokenizer if they are not told.

        None are returned where the text may stand for other tokens.
        """
        if response.tokens:
            return response.tokens
        encoded = (chat.encode(response.text) for chat in self.chats)
        tokens = next((several for several in encoded if several), ())
        written = response.completion_tokens - len(tokens)  # 1: the end token
        return tokens if written in (0, 1) and "\ufffd" not in response.text else ()

    def _aligned(self, seen: Observation) -> Floats | None:
        """The log-probabilities that a side tells; None: of other tokens than its text has here."""
        if seen.logprobs is None or not (known := len(self.tokens(seen.response))):
            return None
        return seen.logprobs if abs(known - len(seen.logprobs)) <= 1 else None

    def way(self, a: ChatResponse, b: ChatResponse) -> "Way":
        """Return up to where two responses go the same way."""
        left, right = self.tokens(a), self.tokens(b)
        if a.text == b.text:
            return Way(min(a.completion_tokens, b.completion_tokens), 0, None)
        if not (a.text and b.text):
            return Way(1, 1, None)
        if not (left and right):
            return Way(0, 0, None)
        tokens = zip(left, right, strict=False)
        first = next((at for at, (x, y) in enumerate(tokens) if x != y), None)
        short = 0 if b.text.startswith(a.text) else 1 if a.text.startswith(b.text) else None
        if short is not None and not (a, b)[short].cut:
            return Way(min(len(left), len(right)), 1, short)
        if first is None:  # one is cut, or has an end token that the other does not tell
            return Way(min(len(left), len(right)), 0, None)
        return Way(first + 1, 1, None)

    def deviation(self, place: int) -> float | None:
        """Return the mean difference of the two sides' log-probabilities of the same tokens.

        Where no network can be examined, of the tokens with which both responses begin.
        """
        view = self.views[place]
        if view is not None:
            return deviation(view.logprobs, self.seen(place).logprobs)
        a, b = self.pairs[place].seen
        same = self.way(a.response, b.response)
        size = same.tokens - same.turns
        if a.logprobs is None or not size:
            return None
        return deviation(a.logprobs[:size], None if b.logprobs is None else b.logprobs[:size])

    def where_tokens_differ(self) -> str:
        """Return by how many tokens prompts differ, if it is one number, or with which media."""
        counts = [tuple(seen.prompt_tokens or 0 for seen in pair.seen) for pair in self.pairs]
        more = {b - a for a, b in counts}
        if len(more) == 1:
            return f", the same {more.pop():+d} in each prompt"
        differing = {pair.kind for pair, (a, b) in zip(self.pairs, counts, strict=True) if a != b}
        return f"; other numbers with {', '.join(sorted(differing))}" if differing else ""

    def only_with(self, limit: float) -> str:
        """Return the kind of media, if the log-probabilities differ with that kind alone."""
        means = {}
        for kind in {pair.kind for pair in self.pairs}:
            places = [place for place, pair in enumerate(self.pairs) if pair.kind == kind]
            values = [off for place in places if (off := self.deviation(place)) is not None]
            means[kind] = fmean(values) if values else 0.0
        differing = [kind for kind, mean in means.items() if mean > limit]
        if len(differing) == len(means) or TEXT in differing:
            return ""
        return " and ".join(sorted(differing))

    def view(self, place: int, *changes: Change) -> Examination | None:
        """Return the examined network's view of the other side's request and response.

        None: no network can be examined, or the last change leaves the question as it is.
        """
        if self.reference is None:
            return None
        variation = Variation(request=self.pairs[place].requests[self.other])
        for change in changes:
            after = change(variation)
            if after is None and change is changes[-1]:
                return None
            variation = after or variation
        a, b = (seen.response for seen in self.pairs[place].seen)
        tokens = self.tokens(b if self.other else a)
        if a.text == b.text and a.cut == b.cut:
            tokens = tokens or self.tokens(a) or self.tokens(b)
        return self.chats[self.reference].examine(variation, tokens)

    def seen(self, place: int) -> Observation:
        """Return what the other side tells of a question."""
        return self.pairs[place].seen[self.other]

    def distance(self, place: int, *changes: Change) -> float | None:
        """Return the examined network's distance from the other side; see `residual`.

        None: the last of the changes leaves the question as it is.
        """
        view = self.view(place, *changes) if changes else self.views[place]
        return None if view is None else residual(view, self.seen(place))

"""Ask two ways of calling one network the same questions, and compare their responses.

The two ways are called sides, numbered 0 (A) and 1 (B). The reference is the side whose network
runs in this process: it computes how probable each token of the other side's response is. Questions
are numbered by their index in `Questions.pairs`. `certify` judges the result; `search` looks for
causes by `distance`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import NamedTuple

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.leaderboards.certification.pairs import TENSORS, TEXT, Pair, Part, deviation, residual
from harness.leaderboards.certification.suspects import Change
from harness.observation import Examination, Floats, Observation, Variation


class CommonStart(NamedTuple):
    """The tokens with which two responses begin alike."""

    tokens: int
    """Number of tokens compared, up to and with the first that differs."""
    diverges: int
    """1 if the responses differ at the last of these tokens, 0 if not."""
    early_side: int | None
    """Side whose response ends where the other's goes on; None if neither does."""


@dataclass
class Questions:
    """The questions asked so far, with both sides' observations."""

    chats: tuple[Chat, Chat]
    reference: int | None = None
    """Side whose network is in this process; None: neither is."""
    pairs: list[Pair] = field(default_factory=list)
    parts: dict[str, list[Part]] = field(default_factory=dict)
    """Comparisons of all questions by aspect."""
    views: list[Examination | None] = field(default_factory=list)
    """For each question, its examination by the reference network; see `view`."""

    @property
    def other(self) -> int:
        """The side that is not the reference; 1 without a reference."""
        return 0 if self.reference == 1 else 1

    @property
    def other_letter(self) -> str:
        """Letter of the other side, A or B."""
        return "AB"[self.other]

    @property
    def reference_letter(self) -> str:
        """Letter of the reference, A or B."""
        return "AB"[1 - self.other]

    def ask(self, a: Sequence[ChatRequest], b: Sequence[ChatRequest]) -> None:
        """Send requests to both sides, and compare the inputs of the two networks."""
        observed = zip(a, b, self.chats[0].observe(a), self.chats[1].observe(b), strict=True)
        for of_a, of_b, *observations in observed:
            pair = Pair(requests=(of_a, of_b), observations=(observations[0], observations[1]))
            for part in pair.parts():
                self.parts.setdefault(part.aspect, []).append(part)
            if not self.pairs:
                self.reference = self._reference_side(pair)
            # Equal pixels need no explanation, and take much memory.
            keeps_tensors = self.parts[TENSORS][-1].equal is False
            light = [
                replace(
                    observation,
                    images=None,
                    tensors=observation.tensors if keeps_tensors else None,
                    logprobs=self._aligned(observation),
                )
                for observation in observations
            ]
            self.pairs.append(replace(pair, observations=(light[0], light[1])))
            view = self.view(len(self.pairs) - 1)
            if view is not None and not keeps_tensors:
                view = replace(view, tensors={})
            self.views.append(view)

    def _reference_side(self, pair: Pair) -> int | None:
        """Return the first side that can examine a request; None: neither can."""
        for side, chat in enumerate(self.chats):
            if chat.examine(Variation(request=pair.requests[side]), ()) is not None:
                return side
        return None

    def tokens(self, response: ChatResponse) -> tuple[int, ...]:
        """Return the tokens of a response; if it has none on record, encode its text.

        Empty if the text may come from other tokens than its encoding (see the last line).
        """
        if response.tokens:
            return response.tokens
        tokens = self.chats[0].encode(response.text) or self.chats[1].encode(response.text) or ()
        written = response.completion_tokens - len(tokens)  # 1: the end token
        return tokens if written in (0, 1) and "\ufffd" not in response.text else ()

    def _aligned(self, observation: Observation) -> Floats | None:
        """Return a side's log-probabilities; None if their number does not fit its tokens."""
        if observation.logprobs is None:
            return None
        n_tokens = len(self.tokens(observation.response))
        fits = n_tokens > 0 and abs(n_tokens - len(observation.logprobs)) <= 1  # 1: the end token
        return observation.logprobs if fits else None

    def common_start(self, a: ChatResponse, b: ChatResponse) -> CommonStart:
        """Compare two responses token by token, up to the first token that differs.

        No tokens are compared if the texts differ and the tokens of one are not known.
        """
        tokens_of_a, tokens_of_b = self.tokens(a), self.tokens(b)
        if a.text == b.text:
            return CommonStart(min(a.completion_tokens, b.completion_tokens), 0, None)
        if not (a.text and b.text):
            return CommonStart(1, 1, None)
        if not (tokens_of_a and tokens_of_b):
            return CommonStart(0, 0, None)
        shared_length = min(len(tokens_of_a), len(tokens_of_b))
        for side, (short, long) in enumerate(((a, b), (b, a))):
            if long.text.startswith(short.text) and not short.cut:
                return CommonStart(shared_length, 1, early_side=side)
        for index in range(shared_length):
            if tokens_of_a[index] != tokens_of_b[index]:
                return CommonStart(index + 1, 1, None)
        # One response is cut, or has an end token that the other side does not report.
        return CommonStart(shared_length, 0, None)

    def deviation(self, index: int) -> float | None:
        """Return the mean difference of log-probabilities of the same tokens, in nats.

        They are the other side's tokens; without a reference, those with which both responses
        begin. None: a side reports no log-probabilities.
        """
        view = self.views[index]
        if view is not None:
            return deviation(view.logprobs, self.observation(index).logprobs)
        a, b = self.pairs[index].observations
        start = self.common_start(a.response, b.response)
        size = start.tokens - start.diverges
        if a.logprobs is None or not size:
            return None
        return deviation(a.logprobs[:size], None if b.logprobs is None else b.logprobs[:size])

    def where_tokens_differ(self) -> str:
        """Describe where the prompts' lengths differ: by a constant, or with some media only."""
        lengths = [
            tuple(side.prompt_tokens or 0 for side in pair.observations) for pair in self.pairs
        ]
        extra_tokens = {b - a for a, b in lengths}
        if len(extra_tokens) == 1:
            return f", the same {extra_tokens.pop():+d} in each prompt"
        differing = {pair.kind for pair, (a, b) in zip(self.pairs, lengths, strict=True) if a != b}
        return f"; other numbers with {', '.join(sorted(differing))}" if differing else ""

    def differing_kinds(self, limit: float) -> str:
        """Return the kinds of media with which log-probabilities differ by more than `limit` nats.

        Empty if they differ with all kinds, or with text alone.
        """
        means = {}
        for media_kind in {pair.kind for pair in self.pairs}:
            indices = [index for index, pair in enumerate(self.pairs) if pair.kind == media_kind]
            deviations = [self.deviation(index) for index in indices]
            values = [value for value in deviations if value is not None]
            means[media_kind] = fmean(values) if values else 0.0
        differing = [media_kind for media_kind, mean in means.items() if mean > limit]
        if len(differing) == len(means) or TEXT in differing:
            return ""
        return " and ".join(sorted(differing))

    def view(self, index: int, *changes: Change) -> Examination | None:
        """Examine the other side's request and response with the reference network.

        Args:
            index: The question.
            changes: Applied to the request first, one after another.

        Returns:
            None without a reference, or if the last change does not apply to the question.
        """
        if self.reference is None:
            return None
        variation = Variation(request=self.pairs[index].requests[self.other])
        for change in changes:
            after = change(variation)
            if after is None and change is changes[-1]:
                return None
            variation = after or variation
        a, b = (observation.response for observation in self.pairs[index].observations)
        tokens = self.tokens(b if self.other else a)
        if a.text == b.text and a.cut == b.cut:
            tokens = tokens or self.tokens(a) or self.tokens(b)
        return self.chats[self.reference].examine(variation, tokens)

    def observation(self, index: int) -> Observation:
        """Return the other side's observation of a question."""
        return self.pairs[index].observations[self.other]

    def distance(self, index: int, *changes: Change) -> float | None:
        """Return the reference network's distance from the other side (`residual`); see `view`."""
        view = self.view(index, *changes) if changes else self.views[index]
        return None if view is None else residual(view, self.observation(index))

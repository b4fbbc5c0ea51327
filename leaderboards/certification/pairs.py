"""Compare, for one question, the inputs of a network that is called in two ways (sides A and B).

`Questions` makes a `Pair` from two requests and what each side observed; `Pair.parts` yields one
`Part` for each input (texts, images, times, tokens, pixels). The functions below measure distances
of pixels and of log-probabilities (in nats).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.chat import ChatRequest
from harness.observation import Examination, Floats, Observation, Tensors

# Names of the compared aspects.
WORDS, SYSTEM, SETTINGS, LIMIT = "prompt text", "system prompt", "settings", "limit of tokens"
IMAGES, TIMES, TOKENS, TENSORS = "images", "frame times", "prompt tokens", "processed pixels"
LOGPROBS, CHOICE, ANSWERS = "log-probabilities", "choice of tokens", "answers"
AGAIN, WEIGHTS, EARLY = "asked again", "weights", "ends of responses"
TEXT = "text alone"  # a kind of media
RESIZED_FINDING = "one side resizes images before it sends them, to the size that the network sees"
MAX_ROUNDING = 0.02
"""Largest difference of processed pixels, about a level of 256 after normalization, from rounding
alone."""
MAX_TIME_GAP = 0.051
"""Largest difference in seconds of a frame's two times; some are written with one decimal place."""


class Part(NamedTuple):
    """One part of one question, compared."""

    aspect: str
    equal: bool | None
    """None if a side does not report it."""
    finding: str = ""
    """The difference, or the reason why it is not known."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
    """One question, asked through both sides; every pair is (A, B)."""

    requests: tuple[ChatRequest, ChatRequest]
    observations: tuple[Observation, Observation]
    """Reports of both sides' backends on their inputs and responses."""

    @property
    def kind(self) -> str:
        """Kind of the question's media: `clips`, `images` or `text alone`."""
        media = self.requests[0].media
        return "clips" if any(len(medium) > 1 for medium in media) else IMAGES if media else TEXT

    def parts(self) -> Iterator[Part]:
        """Yield the comparison of each input of the two networks."""
        a, b = self.requests
        yield _same(WORDS, a.text, b.text)
        yield _same(SYSTEM, a.system, b.system)
        yield _same(LIMIT, a.max_new_tokens, b.max_new_tokens)
        yield _same(SETTINGS, (a.prefix, a.stop, a.temperature), (b.prefix, b.stop, b.temperature))
        yield from self._limits()
        yield from self._media()
        yield self._tokens()
        yield self._tensors()

    def _limits(self) -> Iterator[Part]:
        """Yield a finding for each response that is cut before the request's limit of tokens."""
        for letter, request, observed in zip("AB", self.requests, self.observations, strict=True):
            response = observed.response
            if response.cut and response.completion_tokens < request.max_new_tokens:
                finding = (
                    f"{letter} cuts a response after {response.completion_tokens} tokens, where "
                    f"{request.max_new_tokens} are allowed"
                )
                yield Part(LIMIT, False, finding)

    def _media(self) -> Iterator[Part]:
        """Yield the comparison of the images and frame times that reach the two processors."""
        a, b = self.observations
        if a.images is None or b.images is None:
            unknown = "A" if a.images is None else "B"
            yield Part(IMAGES, None, f"{unknown} does not tell what it hands over")
        elif len(a.images) != len(b.images):
            finding = f"A hands over {len(a.images)} images or frames, B {len(b.images)}"
            yield Part(IMAGES, False, finding)
        else:
            for of_a, of_b in zip(a.images, b.images, strict=True):
                yield self._image(of_a, of_b)
        if not self.requests[0].media:
            return
        if a.times is None or b.times is None:
            unknown = "A" if a.times is None else "B"
            yield Part(TIMES, None, f"{unknown} does not tell the times that it hands over")
        elif len(a.times) == len(b.times) and any(
            len(media) > 1 for media in self.requests[0].media
        ):
            yield _times(a.times, b.times)

    def _image(self, of_a: np.ndarray, of_b: np.ndarray) -> Part:
        """Compare two images, (height, width, 3) of uint8."""
        if of_a.shape != of_b.shape:
            return self._resized(of_a.shape[1::-1], of_b.shape[1::-1])
        off = float(np.abs(of_a.astype(np.int16) - of_b).mean())
        finding = f"pixels differ by {off:.2g} of 255 on average"
        return Part(IMAGES, not off, finding if off else "")

    def _resized(self, a: Sequence[int], b: Sequence[int]) -> Part:
        """Compare the sizes at which the networks see images that are handed over in two sizes."""
        sizes = [side.response.canvases for side in self.observations]
        if all(sizes):
            if sizes[0] == sizes[1]:
                return Part(IMAGES, None, RESIZED_FINDING)
            first = next((pair for pair in zip(*sizes, strict=False) if pair[0] != pair[1]), None)
            if first is not None:
                a, b = first
                return Part(IMAGES, False, f"A's network sees {_size(a)} pixels, B's {_size(b)}")
        if {tuple(a), tuple(b)} & {*sizes[0], *sizes[1]}:
            return Part(IMAGES, None, "one side resizes images before it sends them")
        return Part(IMAGES, False, f"A hands over {_size(a)} pixels, B {_size(b)}")

    def _tokens(self) -> Part:
        """Compare the tokens of the prompts, or their numbers if one side lacks the tokens."""
        a, b = self.observations
        if a.prompt is not None and b.prompt is not None:
            if a.prompt == b.prompt:
                return Part(TOKENS, True)
            differing = [
                i for i, (x, y) in enumerate(zip(a.prompt, b.prompt, strict=False)) if x != y
            ]
            first = differing[0] if differing else min(len(a.prompt), len(b.prompt))
            finding = f"A has {len(a.prompt)}, B {len(b.prompt)}; the first that differs is {first}"
            return Part(TOKENS, False, finding)
        lengths = a.prompt_tokens, b.prompt_tokens
        if lengths[0] is None or lengths[1] is None:
            return Part(TOKENS, None, f"{'A' if lengths[0] is None else 'B'} does not count them")
        if lengths[0] != lengths[1]:
            return Part(TOKENS, False, f"A has {lengths[0]}, B {lengths[1]}")
        return Part(TOKENS, True, "their number alone")

    def _tensors(self) -> Part:
        a, b = self.observations
        if a.tensors is None or b.tensors is None:
            return Part(TENSORS, None, f"{'A' if a.tensors is None else 'B'} does not tell them")
        largest, mean = tensor_distances(a.tensors, b.tensors)
        finding = f"they differ by {mean:.2g} on average" if not largest <= MAX_ROUNDING else ""
        return Part(TENSORS, not finding, finding)


def _size(size: Sequence[int]) -> str:
    return f"{size[0]} × {size[1]}"


def _same(aspect: str, a: object, b: object) -> Part:
    return Part(aspect, a == b, "" if a == b else f"A has {_short(a)}, B {_short(b)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _times(a: tuple[float | None, ...], b: tuple[float | None, ...]) -> Part:
    missing = [letter for letter, times in (("A", a), ("B", b)) if set(times) == {None}]
    if len(missing) == 1:
        return Part(TIMES, False, f"they are missing in {missing[0]}")
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    # All times of a clip count, the first too: both sides keep it, or a side has lost the clock.
    off = max((abs(x - y) for x, y in pairs), default=0.0)
    finding = f"they differ by up to {off:.2f} s" if off > MAX_TIME_GAP else ""
    return Part(TIMES, off <= MAX_TIME_GAP, finding)


def tensor_distances(a: Tensors, b: Tensors) -> tuple[float, float]:
    """Return the largest absolute difference, and the largest mean one of a tensor.

    Both are infinite if the names or shapes differ.
    """
    if {name: tensor.shape for name, tensor in a.items()} != {
        name: tensor.shape for name, tensor in b.items()
    }:
        return float("inf"), float("inf")
    gaps = [np.abs(a[name] - b[name]) for name in a if a[name].size]
    largest = max((float(gap.max()) for gap in gaps), default=0.0)
    return largest, max((float(gap.mean()) for gap in gaps), default=0.0)


def deviation(a: Floats, b: Floats | None) -> float | None:
    """Return the mean absolute difference of the log-probabilities of the same tokens, in nats.

    A side may leave out the last tokens. None: a side reports none.
    """
    if b is None or not (size := min(len(a), len(b))):
        return None
    return float(np.abs(a[:size] - b[:size]).mean())


def regret(examined: Examination) -> float:
    """Return how far the response's log-probability lies below the greedy one, in nats a token."""
    gaps: Floats = examined.best - examined.logprobs
    return float(gaps.mean()) if len(gaps) else 0.0


def residual(examined: Examination, observation: Observation) -> float:
    """Return the distance of the reference network's view of a request from the other side's.

    It adds the deviation of log-probabilities (or else the regret) in nats, 1 for a prompt of other
    tokens, and the mean difference of processed pixels, at most 1.
    """
    total = deviation(examined.logprobs, observation.logprobs)
    total = regret(examined) if total is None else total
    if observation.prompt is not None:
        total += 1.0 if examined.prompt != observation.prompt else 0.0
    elif observation.prompt_tokens is not None:
        total += 1.0 if len(examined.prompt) != observation.prompt_tokens else 0.0
    if observation.tensors is not None:
        total += min(1.0, tensor_distances(examined.tensors, observation.tensors)[1])
    return total

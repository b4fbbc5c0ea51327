"""One question asked in both ways: what the two networks were given, compared part by part."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.chat import ChatRequest
from harness.observation import Examination, Floats, Observation, Tensors

WORDS, SYSTEM, SETTINGS, LIMIT = "prompt text", "system prompt", "settings", "limit of tokens"
IMAGES, TIMES, TOKENS, TENSORS = "images", "frame times", "prompt tokens", "processed pixels"
LOGPROBS, CHOICE, ANSWERS = "log-probabilities", "choice of tokens", "answers"
AGAIN, WEIGHTS = "asked again", "weights"
TEXT = "text alone"
EARLY = "ends of responses"
ROUNDING = 0.02
"""Largest difference of processed pixels, about a level of 256 after normalization, from rounding
alone."""
SECONDS = 0.051
"""Largest difference of two times of a frame; some are written with one decimal place."""


class Part(NamedTuple):
    """One part of one question, compared."""

    aspect: str
    equal: bool | None
    """None: it is not known on both sides."""
    words: str = ""
    """The difference, or why it is not known."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
    """One question asked in both ways."""

    requests: tuple[ChatRequest, ChatRequest]
    seen: tuple[Observation, Observation]

    @property
    def kind(self) -> str:
        """The media of the question."""
        media = self.requests[0].media
        return "clips" if any(len(medium) > 1 for medium in media) else IMAGES if media else TEXT

    def parts(self) -> Iterator[Part]:
        """Yield what the two networks were given, compared part by part."""
        a, b = self.requests
        yield _same(WORDS, a.text, b.text)
        yield _same(SYSTEM, a.system, b.system)
        yield _same(LIMIT, a.max_new_tokens, b.max_new_tokens)
        yield _same(SETTINGS, (a.prefix, a.stop, a.temperature), (b.prefix, b.stop, b.temperature))
        yield from self._limits()
        yield from self._shown()
        yield self._tokens()
        yield self._tensors()

    def _limits(self) -> Iterator[Part]:
        for letter, request, seen in zip("AB", self.requests, self.seen, strict=True):
            response = seen.response
            if response.cut and response.completion_tokens < request.max_new_tokens:
                words = (
                    f"{letter} cuts a response after {response.completion_tokens} tokens, where "
                    f"{request.max_new_tokens} are allowed"
                )
                yield Part(LIMIT, False, words)

    def _shown(self) -> Iterator[Part]:
        a, b = self.seen
        if a.images is None or b.images is None:
            unknown = "A" if a.images is None else "B"
            yield Part(IMAGES, None, f"{unknown} does not tell what it hands over")
        elif len(a.images) != len(b.images):
            words = f"A hands over {len(a.images)} images or frames, B {len(b.images)}"
            yield Part(IMAGES, False, words)
        else:
            for left, right in zip(a.images, b.images, strict=True):
                yield self._image(left, right)
        if not self.requests[0].media:
            return
        if a.times is None or b.times is None:
            unknown = "A" if a.times is None else "B"
            yield Part(TIMES, None, f"{unknown} does not tell the times that it hands over")
        elif len(a.times) == len(b.times) and any(
            len(media) > 1 for media in self.requests[0].media
        ):
            yield _times(a.times, b.times)

    def _image(self, left: np.ndarray, right: np.ndarray) -> Part:
        if left.shape != right.shape:
            canvases = {size for seen in self.seen for size in seen.response.canvases}
            sizes = [f"{image.shape[1]} × {image.shape[0]}" for image in (left, right)]
            if {image.shape[1::-1] for image in (left, right)} & canvases:
                return Part(IMAGES, None, "one side resizes images before it sends them")
            return Part(IMAGES, False, f"A hands over {sizes[0]} pixels, B {sizes[1]}")
        off = float(np.abs(left.astype(np.int16) - right).mean())
        words = f"pixels differ by {off:.2g} of 255 on average"
        return Part(IMAGES, not off, words if off else "")

    def _tokens(self) -> Part:
        a, b = self.seen
        if a.prompt is not None and b.prompt is not None:
            if a.prompt == b.prompt:
                return Part(TOKENS, True)
            first = next(
                (at for at, (x, y) in enumerate(zip(a.prompt, b.prompt, strict=False)) if x != y),
                min(len(a.prompt), len(b.prompt)),
            )
            words = f"A has {len(a.prompt)}, B {len(b.prompt)}; the first that differs is {first}"
            return Part(TOKENS, False, words)
        counts = a.prompt_tokens, b.prompt_tokens
        if counts[0] is None or counts[1] is None:
            return Part(TOKENS, None, f"{'A' if counts[0] is None else 'B'} does not count them")
        if counts[0] != counts[1]:
            return Part(TOKENS, False, f"A has {counts[0]}, B {counts[1]}")
        return Part(TOKENS, True, "their number alone")

    def _tensors(self) -> Part:
        a, b = self.seen
        if a.tensors is None or b.tensors is None:
            return Part(TENSORS, None, f"{'A' if a.tensors is None else 'B'} does not tell them")
        largest, mean = tensor_distances(a.tensors, b.tensors)
        words = f"they differ by {mean:.2g} on average" if not largest <= ROUNDING else ""
        return Part(TENSORS, not words, words)


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
    # Networks are given a clock: the first frame's own time is the same in both ways or lost.
    off = max((abs(x - y) for x, y in pairs), default=0.0)
    words = f"they differ by up to {off:.2f} s" if off > SECONDS else ""
    return Part(TIMES, off <= SECONDS, words)


def tensor_distances(a: Tensors, b: Tensors) -> tuple[float, float]:
    """Return the largest and the mean difference of two sets of tensors.

    Both are infinite if the shapes differ.
    """
    if {name: tensor.shape for name, tensor in a.items()} != {
        name: tensor.shape for name, tensor in b.items()
    }:
        return float("inf"), float("inf")
    gaps = [np.abs(a[name] - b[name]) for name in a if a[name].size]
    largest = max((float(gap.max()) for gap in gaps), default=0.0)
    return largest, max((float(gap.mean()) for gap in gaps), default=0.0)


def deviation(a: Floats, b: Floats | None) -> float | None:
    """Return the mean difference of the log-probabilities of the same tokens, in nats.

    A side may leave out the last tokens. None: one does not tell any.
    """
    if b is None or not (size := min(len(a), len(b))):
        return None
    return float(np.abs(a[:size] - b[:size]).mean())


def regret(examined: Examination) -> float:
    """Return by how much likelier the likeliest tokens are than the response's, in nats a token."""
    gaps: Floats = examined.best - examined.logprobs
    return float(gaps.mean()) if len(gaps) else 0.0


def residual(examined: Examination, seen: Observation) -> float:
    """Return the distance of a network's view of a request from what the other side tells of its.

    A prompt of other tokens counts 1, and so do processed pixels of another shape.
    """
    total = deviation(examined.logprobs, seen.logprobs)
    total = regret(examined) if total is None else total
    if seen.prompt is not None:
        total += examined.prompt != seen.prompt
    elif seen.prompt_tokens is not None:
        total += len(examined.prompt) != seen.prompt_tokens
    if seen.tensors is not None:
        total += min(1.0, tensor_distances(examined.tensors, seen.tensors)[1])
    return total

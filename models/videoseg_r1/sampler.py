"""VideoSeg-R1's hierarchical frame sampler: find a key segment and a target frame by votes.

This is stage 1 of the paper (Xu et al. 2025) as a generator without a VLM: it yields vote requests,
receives the responses, and returns the place. `frame_search` connects it to a network.

1. Voters name a time interval; the average is the key segment. While it is longer than `delta` of
   the video, they vote again within it.
2. Voters name a percentage; the average is the position of the target frame in the key segment.

Choices where the paper is silent: there are five votes; a time means the nearest frame; an
unreadable interval does not count, an unreadable percentage counts as 50 %. Rounds end when one
does not shorten the segment, or after the last; a segment that is still too long is cropped around
its middle. The limit is at least one frame.

A stage may be switched off (the paper's Table 5). Without both, the target is the first frame; with
the key segment alone, it is a random frame of it.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from statistics import fmean, median
from typing import Annotated, Literal, TypeAlias

from harness.errors import ParseError, UsageError
from harness.models.tracks import nearest_index
from harness.options import Carried, Only
from harness.responses import finite_numbers, loads_lenient, tag_text
from harness.thoughts import after_thought

Average: TypeAlias = Literal["mean", "median"]
Target: TypeAlias = Literal["inside", "literal"]
ROUNDING_ERROR = 1e-9  # tolerance for the rounding error of a product of floats


@dataclass(frozen=True, slots=True)
class Segment:
    """The frames `start` to `end` of a video, both included."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start + 1

    def frames(self) -> range:
        """Return the numbers of the frames."""
        return range(self.start, self.end + 1)

    def crop(self, limit: int) -> "Segment":
        """Return the segment of at most `limit` frames around the middle of this one."""
        start = self.start + max(0, len(self) - limit) // 2
        return Segment(start, min(self.end, start + limit - 1))


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """The result of a search: the key segment, and the target frame within it."""

    segment: Segment
    target: int
    """Number of the target frame."""


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A question about a segment, to be sent to the voters `votes` times."""

    kind: Literal["segment", "frame"]
    round: int
    segment: Segment
    votes: int


Search: TypeAlias = Generator[VoteRequest, Sequence[str], KeyChoice]
"""Yields each `VoteRequest`, receives the responses to it, and returns the choice at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """The settings of the sampler, which are options of `videoseg_r1`; `search` runs it."""

    votes: Annotated[int, Only(key_segment=True)] = 5
    """K: intervals a round."""
    percentages: Annotated[int, Only(target_frame=True)] = 5
    """M: percentages for the target frame."""
    delta: Annotated[float, Only(key_segment=True)] = 0.3
    """The longest key segment, as a part of the video."""
    rounds: Annotated[int, Only(key_segment=True)] = 5
    """Maximum number of rounds."""
    average: Annotated[Average, Only(key_segment=True) | Only(target_frame=True)] = "mean"
    """Average of votes; a `median` does not mix two stretches that voters disagree about."""
    target: Annotated[Target, Only(target_frame=True)] = "inside"
    """Rule from a share p of a segment of n frames to a frame: frame number ceil(n p), counted from
    one (`inside`), or the paper's start + ceil(n p), one frame later, clipped (`literal`)."""
    key_segment: Carried[bool] = True
    """Without it the key segment is the whole video (the paper's Table 5)."""
    target_frame: Carried[bool] = True
    """Without it the target is a random frame of the key segment, or, if there is no key segment
    either, the first frame of the video (Table 5)."""
    seed: int = 0
    """Seed of the random frame."""

    def __post_init__(self) -> None:
        for name in ("votes", "percentages", "rounds"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}=…", expected="at least 1", found=str(getattr(self, name)))
        if not 0 < self.delta < 1:
            raise UsageError("delta=…", expected="between 0 and 1", found=str(self.delta))

    def search(self, times: Sequence[float], *, key: str = "") -> Search:
        """Return the generator that searches a video.

        Args:
            times: Time of each frame of the video in seconds, ascending.
            key: Name of the question, which with the seed determines a random frame.
        """
        segment = Segment(0, len(times) - 1)
        if self.key_segment:
            segment = yield from self._narrow(times, segment)
        if len(segment) == 1 or not (self.target_frame or self.key_segment):
            return KeyChoice(segment, segment.start)
        if not self.target_frame:
            return KeyChoice(segment, segment.start + self._draw(len(segment), key))
        responses = yield VoteRequest("frame", 0, segment, self.percentages)
        return KeyChoice(segment, self.frame(segment, shares(responses)))

    def limit(self, total: int) -> int:
        """Return the largest number of frames of the key segment in a video of `total` frames."""
        return max(1, math.floor(self.delta * total + ROUNDING_ERROR))

    def interval(
        self, segment: Segment, votes: Sequence[tuple[float, float]], times: Sequence[float]
    ) -> Segment:
        """Return the average of the votes (seconds) as frames within `segment`.

        Without votes it is the whole segment. `times` are the times of all frames in seconds.
        """
        if not votes:
            return segment
        first = nearest_index(times, self._average([min(vote) for vote in votes]))
        last = nearest_index(times, self._average([max(vote) for vote in votes]))
        low, high = segment.start, segment.end
        return Segment(min(max(first, low), high), min(max(last, low), high))

    def frame(self, segment: Segment, parts: Sequence[float]) -> int:
        """Return the target frame for votes given as shares of the segment, from 0 to 1."""
        steps = math.ceil(len(segment) * self._average(parts) - ROUNDING_ERROR)
        if self.target == "inside":
            steps = max(0, steps - 1)
        return min(segment.end, segment.start + steps)

    def _narrow(
        self, times: Sequence[float], segment: Segment
    ) -> Generator[VoteRequest, Sequence[str], Segment]:
        """Yield rounds of votes until the segment is short enough; return the key segment."""
        limit = self.limit(len(times))
        for number in range(self.rounds):
            if len(segment) <= limit:
                break
            responses = yield VoteRequest("segment", number, segment, self.votes)
            votes = [vote for vote in map(read_interval, responses) if vote is not None]
            narrowed = self.interval(segment, votes, times)
            if len(narrowed) == len(segment):
                break
            segment = narrowed
        return segment.crop(limit)

    def _draw(self, total: int, key: str) -> int:
        """Return a number from 0 to `total` - 1 that depends on key and seed only."""
        digest = blake2b(f"{self.seed}:{key}:target".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % total

    def _average(self, values: Sequence[float]) -> float:
        """Return the mean or the median, by the option `average`."""
        return fmean(values) if self.average == "mean" else median(values)


def shares(responses: Sequence[str]) -> list[float]:
    """Return the percentages of responses as shares, clipped to 0 … 1; an unreadable one is 0.5.

    If any number is above 1, all are per cents; otherwise all are shares.
    """
    numbers = [read_percentage(response) for response in responses]
    scale = 100.0 if any(number is not None and number > 1 for number in numbers) else 1.0
    return [0.5 if number is None else min(max(number / scale, 0.0), 1.0) for number in numbers]


def read_interval(response: str) -> tuple[float, float] | None:
    """Return (start, end) in seconds of `{"start": …, "end": …}`; None if it cannot be read.

    >>> read_interval('It is {"start": 2, "end": 3.5}.')
    (2.0, 3.5)
    """
    try:
        value = _braced_object(response)
        start, end = finite_numbers([value.get("start"), value.get("end")], 2, "interval")
    except ParseError:
        return None
    return start, end


def read_percentage(response: str) -> float | None:
    """Return the number of `{"percent": …}`; None if it cannot be read."""
    try:
        return finite_numbers([_braced_object(response).get("percent")], 1, "percentage")[0]
    except ParseError:
        return None


def _braced_object(response: str) -> Mapping[str, object]:
    """Return the first `{…}` of `<answer>`, or else of the text after the thought.

    Raises:
        ParseError: there is none, or it is not JSON.
    """
    response_after_thought = after_thought(response)
    text = tag_text(response_after_thought, "answer")
    text = response_after_thought if text is None else text
    start = text.find("{")
    end = text.find("}", start) if start >= 0 else -1
    if end < 0:
        raise ParseError("response", expected="an object in braces", found=repr(response[:40]))
    value, _ = loads_lenient(text[start : end + 1])
    if not isinstance(value, Mapping):
        raise ParseError("response", expected="an object", found=type(value).__name__)
    return value

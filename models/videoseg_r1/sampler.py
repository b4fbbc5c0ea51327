"""The hierarchical text-guided frame sampler: it chooses a segment of a video, and its frame.

VideoSeg-R1's stage 1 (Xu et al. 2025), as a pure generator: it yields questions for a VLM, receives
the responses, and returns a place. Nothing here depends on a VLM.

1. Several votes for a stretch of time; their average is the key segment. While that is longer than
   `delta` of the video, the same inside it.
2. Several percentages; their average is the place of the target frame in the key segment.

Where the paper is silent: five votes; frames are those nearest to a time; a vote that cannot be
read does not count, a percentage that cannot counts as the middle. A round that does not make the
segment shorter ends the rounds, as does the last one; what is still too long is cropped around its
middle. `delta` of very few frames is one frame.

With a stage switched off it is a row of the paper's Table 5: neither stage is the first frame, the
key segment alone a random frame of it.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from statistics import fmean, median
from typing import Annotated, Literal, TypeAlias

from harness.errors import ParseError, UsageError
from harness.models.tracks import nearest_place
from harness.options import Carried, Only
from harness.responses import finite_numbers, loads_lenient, tag_text
from harness.thoughts import after_thought

Average: TypeAlias = Literal["mean", "median"]
Target: TypeAlias = Literal["inside", "literal"]
ROUNDING = 1e-9  # what a product of floats may be off


@dataclass(frozen=True, slots=True)
class Segment:
    """Frames `start` to `end` of a video, both included."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start + 1

    def frames(self) -> range:
        """The numbers of its frames."""
        return range(self.start, self.end + 1)

    def crop(self, limit: int) -> "Segment":
        """Return at most `limit` frames around its middle."""
        start = self.start + max(0, len(self) - limit) // 2
        return Segment(start, min(self.end, start + limit - 1))


@dataclass(frozen=True, slots=True)
class KeySegment:
    """Result of the search: the key segment, and the target frame, which is one of its frames."""

    segment: Segment
    target: int


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A question about a segment that is put to the voters `votes` times."""

    kind: Literal["segment", "frame"]
    round: int
    segment: Segment
    votes: int


Search: TypeAlias = Generator[VoteRequest, Sequence[str], KeySegment]
"""Yields each `VoteRequest`, is sent its responses, and returns the place at last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """The sampler's settings."""

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
        """Search the place in a video whose frames are shown at `times` (seconds, ascending).

        `key` names the question: with the seed it decides which frame a random one is.
        """
        segment = Segment(0, len(times) - 1)
        if self.key_segment:
            segment = yield from self._narrow(times, segment)
        if len(segment) == 1 or not (self.target_frame or self.key_segment):
            return KeySegment(segment, segment.start)
        if not self.target_frame:
            return KeySegment(segment, segment.start + self._draw(len(segment), key))
        responses = yield VoteRequest("frame", 0, segment, self.percentages)
        return KeySegment(segment, self.frame(segment, shares(responses)))

    def limit(self, total: int) -> int:
        """Frames that a key segment of a video of `total` frames has at most."""
        return max(1, math.floor(self.delta * total + ROUNDING))

    def interval(
        self, segment: Segment, votes: Sequence[tuple[float, float]], times: Sequence[float]
    ) -> Segment:
        """The average of votes (seconds) as frames of `segment`; all of it without votes."""
        if not votes:
            return segment
        edges = [self._average([pick(vote) for vote in votes]) for pick in (min, max)]
        low, high = segment.start, segment.end
        start, end = (min(max(nearest_place(times, edge), low), high) for edge in edges)
        return Segment(start, end)

    def frame(self, segment: Segment, parts: Sequence[float]) -> int:
        """The target frame for percentages as parts from 0 to 1."""
        steps = math.ceil(len(segment) * self._average(parts) - ROUNDING)
        if self.target == "inside":
            steps = max(0, steps - 1)
        return min(segment.end, segment.start + steps)

    def _narrow(
        self, times: Sequence[float], segment: Segment
    ) -> Generator[VoteRequest, Sequence[str], Segment]:
        limit = self.limit(len(times))
        for number in range(self.rounds):
            if len(segment) <= limit:
                break
            responses = yield VoteRequest("segment", number, segment, self.votes)
            votes = [
                vote for response in responses if (vote := read_interval(response)) is not None
            ]
            narrowed = self.interval(segment, votes, times)
            if len(narrowed) == len(segment):
                break
            segment = narrowed
        return segment.crop(limit)

    def _draw(self, total: int, key: str) -> int:
        """A number below `total`, the same for a key and a seed wherever it is drawn."""
        digest = blake2b(f"{self.seed}:{key}:target".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % total

    def _average(self, values: Sequence[float]) -> float:
        return fmean(values) if self.average == "mean" else median(values)


def shares(responses: Sequence[str]) -> list[float]:
    """Percentages as parts from 0 to 1: read as per cent if any of them is above 1.

    One that cannot be read is the middle; others are clipped.
    """
    output = [read_percentage(response) for response in responses]
    whole = 100.0 if any(share is not None and share > 1 for share in output) else 1.0
    return [0.5 if share is None else min(max(share / whole, 0.0), 1.0) for share in output]


def read_interval(response: str) -> tuple[float, float] | None:
    """(start, end) in seconds of `{"start": …, "end": …}`, or None.

    >>> read_interval('It is {"start": 2, "end": 3.5}.')
    (2.0, 3.5)
    """
    try:
        value = _object(response)
        start, end = finite_numbers([value.get("start"), value.get("end")], 2, "interval")
    except ParseError:
        return None
    return start, end


def read_percentage(response: str) -> float | None:
    """The number of `{"percent": …}`, or None."""
    try:
        return finite_numbers([_object(response).get("percent")], 1, "percentage")[0]
    except ParseError:
        return None


def _object(response: str) -> Mapping[str, object]:
    """The first object in braces of `<answer>`, or of all that follows the thought."""
    said = after_thought(response)
    text = tag_text(said, "answer")
    text = said if text is None else text
    start = text.find("{")
    end = text.find("}", start) if start >= 0 else -1
    if end < 0:
        raise ParseError("response", expected="an object in braces", found=repr(response[:40]))
    value, _ = loads_lenient(text[start : end + 1])
    if not isinstance(value, Mapping):
        raise ParseError("response", expected="an object", found=type(value).__name__)
    return value

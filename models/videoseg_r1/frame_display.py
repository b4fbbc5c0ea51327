"""Requests of the sampler and of the reasoner, with their frames.

One copy for adapter and trainer. The target frame is the first medium of the reasoner's request, at
the size of the canvas; reference frames and key frames follow, smaller, each as an image or, by
`beside`, as two clips, of which Qwen's encoder joins each two frames to one.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from harness.chat import ChatRequest
from harness.media import Media
from harness.models.prompts import fill
from harness.models.videoseg_r1.grammar import template
from harness.models.videoseg_r1.references import Strategy, key_frames, references, spread
from harness.models.videoseg_r1.sampler import KeySegment, VoteRequest
from harness.models.visionreasoner.grammar import question
from harness.types import Query

Beside: TypeAlias = Literal["images", "clips"]
"""Form of reference frames and key frames: one by one, or as two clips."""

SAMPLER_TOKENS = 128
"""Longest response of the sampler: a few numbers, and the words before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameDisplay:
    """Numbers and sizes of the frames in requests."""

    context: tuple[int, int]
    """(width, height) that every frame but the target is squashed to."""
    sampler_frames: int = 16
    """Frames of a segment that the sampler sees, evenly spread."""
    reference_frames: int = 12
    """T_ref: frames from outside the key segment."""
    strategy: Strategy = "adaptive"
    """Strategy for choosing the reference frames."""
    key_frames: int = 8
    """Frames of the key segment, evenly spread, at most."""
    beside: Beside = "images"
    temperature: float | None = None
    """Temperature of votes; None: the voters' default."""

    def sampler_requests(self, query: Query, ask: VoteRequest, *, key: str) -> list[ChatRequest]:
        """Return the requests of one turn of the sampler, each with its own key."""
        video = query.media[0]
        indices = spread(ask.segment.frames(), self.sampler_frames)
        times = video.times()
        start, end = (f"{times[at]:.1f}" for at in (ask.segment.start, ask.segment.end))
        coarse = ask.kind == "segment"
        text = fill(
            template("coarse.txt" if coarse else "fine.txt"),
            Times=seconds(video, indices),
            Question=question(query.text),
            **({} if coarse else {"Start": start, "End": end}),
        )
        return [
            ChatRequest(
                key=f"{key}:{ask.kind}:{ask.round}:{vote}",
                text=text,
                media=(video,),
                frames=(tuple(indices),),
                resize=self.context,
                max_new_tokens=SAMPLER_TOKENS,
                temperature=self.temperature,
            )
            for vote in range(ask.votes)
        ]

    def references(self, video: Media, place: KeySegment) -> tuple[int, ...]:
        """The reference frames for a place of a video."""
        return references(
            len(video), place.segment, wanted=self.reference_frames, strategy=self.strategy
        )

    def reasoner_request(
        self, request: ChatRequest, place: KeySegment, beside: Sequence[int] | None = None
    ) -> ChatRequest:
        """The reasoner's request for a place of the video that is the request's first medium.

        Args:
            request: That for the target frame alone; its text, key and sizes are kept.
            place: Key segment and target frame.
            beside: The reference frames; None: by the strategy.
        """
        video = request.media[0]
        refer = self.references(video, place) if beside is None else tuple(beside)
        keys = key_frames(place.segment, place.target, limit=self.key_frames)
        clips = [clip for clip in (refer, keys) if clip]
        if self.beside == "images":
            clips = [(frame,) for frame in (*refer, *keys)]
        return ChatRequest(
            key=request.key,
            text=introduction(video, place, refer, keys) + request.text,
            media=(video, *(video for _ in clips), *request.media[1:]),
            frames=((place.target,), *clips, *request.frames[1:]),
            resize=request.resize,
            resize_others=self.context,
            system=request.system,
            max_new_tokens=request.max_new_tokens,
        )


def introduction(video: Media, place: KeySegment, refer: Sequence[int], keys: Sequence[int]) -> str:
    """Return the text about the images, before the question."""
    times, says = video.times(), _texts()
    text = fill(says["target"], Time=f"{times[place.target]:.1f}", End=f"{times[-1]:.1f}")
    if refer:
        text += fill(says["references"], Count=str(len(refer)), Times=seconds(video, refer))
    if keys:
        text += fill(
            says["key"],
            Count=str(len(keys)),
            Times=seconds(video, keys),
            Start=f"{times[place.segment.start]:.1f}",
            End=f"{times[place.segment.end]:.1f}",
        )
    return text


def seconds(video: Media, frames: Sequence[int]) -> str:
    """The times of frames, as text."""
    times = video.times()
    return ", ".join(f"{times[frame]:.1f}" for frame in frames)


@lru_cache
def _texts() -> dict[str, str]:
    return dict(tomllib.loads(template("video.toml")))

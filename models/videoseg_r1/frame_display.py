"""Make the requests of VideoSeg-R1's sampler and reasoner: which frames they show, and the text.

Model and trainer share it. In the reasoner's request the target frame is the first medium, at the
size of the canvas. Reference frames and key frames follow, at a smaller size, one image each; or,
with `beside="clips"`, as two video clips, whose frames Qwen's encoder merges in pairs.
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
from harness.models.videoseg_r1.references import Strategy, choose_references, key_frames, spread
from harness.models.videoseg_r1.sampler import KeyChoice, VoteRequest
from harness.models.visionreasoner.grammar import question
from harness.types import Query

Beside: TypeAlias = Literal["images", "clips"]
"""Form of reference frames and key frames: single images, or two video clips."""

MAX_SAMPLER_TOKENS = 128
"""Longest response of the sampler: a few numbers, and the words before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameDisplay:
    """Numbers and sizes of the frames in requests."""

    context: tuple[int, int]
    """(width, height) in pixels that every frame except the target is squashed to."""
    sampler_frames: int = 16
    """Number of frames of a segment that the sampler sees, evenly spread."""
    reference_frames: int = 12
    """Number of frames from outside the key segment (the paper's T_ref)."""
    strategy: Strategy = "adaptive"
    """Strategy for choosing the reference frames."""
    key_frames: int = 8
    """Largest number of frames from the key segment, evenly spread."""
    beside: Beside = "images"
    """Form of the reference frames and key frames."""
    temperature: float | None = None
    """Temperature of votes; None: the voters' default."""

    def sampler_requests(
        self, query: Query, vote_request: VoteRequest, *, key: str
    ) -> list[ChatRequest]:
        """Return the requests of one turn of the sampler: one for each vote, with its own key."""
        video = query.media[0]
        segment = vote_request.segment
        indices = spread(segment.frames(), self.sampler_frames)
        values = {"Times": seconds(video, indices), "Question": question(query.text)}
        if vote_request.kind == "segment":
            text = fill(template("coarse.txt"), **values)
        else:
            start, end = (video.times()[frame] for frame in (segment.start, segment.end))
            text = fill(template("fine.txt"), **values, Start=f"{start:.1f}", End=f"{end:.1f}")
        return [
            ChatRequest(
                key=f"{key}:{vote_request.kind}:{vote_request.round}:{vote}",
                text=text,
                media=(video,),
                frames=(tuple(indices),),
                resize=self.context,
                max_new_tokens=MAX_SAMPLER_TOKENS,
                temperature=self.temperature,
            )
            for vote in range(vote_request.votes)
        ]

    def reference_indices(self, video: Media, choice: KeyChoice) -> tuple[int, ...]:
        """Return the numbers of the reference frames for a key segment of a video."""
        return choose_references(
            len(video), choice.segment, wanted=self.reference_frames, strategy=self.strategy
        )

    def reasoner_request(
        self, request: ChatRequest, choice: KeyChoice, references: Sequence[int] | None = None
    ) -> ChatRequest:
        """Return the reasoner's request: target frame, reference frames and key frames.

        Args:
            request: The request for the target frame alone; its first medium is the video, and its
                text, key and sizes stay.
            choice: Key segment and target frame.
            references: Numbers of the reference frames; None: those of the strategy.
        """
        video = request.media[0]
        if references is None:
            references = self.reference_indices(video, choice)
        keys = key_frames(choice.segment, choice.target, limit=self.key_frames)
        clips = [tuple(clip) for clip in (references, keys) if clip]
        if self.beside == "images":
            clips = [(frame,) for frame in (*references, *keys)]
        return ChatRequest(
            key=request.key,
            text=introduction(video, choice, references, keys) + request.text,
            media=(video, *(video for _ in clips), *request.media[1:]),
            frames=((choice.target,), *clips, *request.frames[1:]),
            resize=request.resize,
            resize_others=self.context,
            system=request.system,
            max_new_tokens=request.max_new_tokens,
        )


def introduction(
    video: Media, choice: KeyChoice, references: Sequence[int], keys: Sequence[int]
) -> str:
    """Return the text before the question, which states the times (seconds) of the frames shown.

    Args:
        video: The video.
        choice: Key segment and target frame.
        references: Numbers of the reference frames.
        keys: Numbers of the key frames.
    """
    times, templates = video.times(), _templates()
    text = fill(templates["target"], Time=f"{times[choice.target]:.1f}", End=f"{times[-1]:.1f}")
    if references:
        text += fill(
            templates["references"], Count=str(len(references)), Times=seconds(video, references)
        )
    if keys:
        text += fill(
            templates["key"],
            Count=str(len(keys)),
            Times=seconds(video, keys),
            Start=f"{times[choice.segment.start]:.1f}",
            End=f"{times[choice.segment.end]:.1f}",
        )
    return text


def seconds(video: Media, frames: Sequence[int]) -> str:
    """Return the times of frames in seconds, as in "0.0, 1.5"."""
    times = video.times()
    return ", ".join(f"{times[frame]:.1f}" for frame in frames)


@lru_cache
def _templates() -> dict[str, str]:
    """Return the sentences of the introduction, by name."""
    return dict(tomllib.loads(template("video.toml")))

"""Choice of the frames that are shown beside the target frame (VideoSeg-R1, appendix B).

`global` references are spread evenly over the video outside the key segment. `local` ones lie right
before and after it. `adaptive` ones are one third global, two thirds local. The paper takes one to
three local frames a side, which is six, and needs eight of twelve: here as many a side as are
needed; where one side of the video is too short, the other gives more, and what both lack is
global.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from harness.frames import uniform
from harness.models.videoseg_r1.sampler import Segment

Strategy: TypeAlias = Literal["global", "local", "adaptive"]


def references(total: int, segment: Segment, *, wanted: int, strategy: Strategy) -> tuple[int, ...]:
    """Return at most `wanted` frames outside `segment`, in order; fewer if there are no more.

    >>> references(20, Segment(8, 11), wanted=6, strategy="adaptive")
    (0, 6, 7, 12, 13, 19)
    """
    outside = [frame for frame in range(total) if frame not in segment.frames()]
    near = 0 if strategy == "global" else wanted - (wanted // 3 if strategy == "adaptive" else 0)
    local = frames_around(outside, segment, near)
    rest = [frame for frame in outside if frame not in set(local)]
    if strategy == "local":
        return tuple(local)
    return tuple(sorted([*local, *spread(rest, wanted - len(local))]))


def frames_around(outside: Sequence[int], segment: Segment, wanted: int) -> list[int]:
    """The `wanted` frames nearest to a segment, half before and half after it, in order."""
    before = [frame for frame in outside if frame < segment.start]
    after = [frame for frame in outside if frame > segment.end]
    late = min(len(after), wanted // 2)
    early = min(len(before), wanted - late)
    late = min(len(after), wanted - early)
    return [*before[len(before) - early :], *after[:late]]


def key_frames(segment: Segment, target: int, *, limit: int) -> tuple[int, ...]:
    """Return at most `limit` frames of the key segment, evenly spread, without the target frame."""
    return tuple(spread([frame for frame in segment.frames() if frame != target], limit))


def spread(frames: Sequence[int], limit: int) -> list[int]:
    """Return at most `limit` of these, evenly spread from the first to the last."""
    return [frames[index] for index in uniform(range(len(frames)), limit)] if limit > 0 else []

"""Choose the frames that are shown beside the target frame (VideoSeg-R1, appendix B).

`global` references are spread evenly over the video outside the key segment, `local` ones lie
directly before and after it, `adaptive` ones are one third global and two thirds local. The paper
takes one to three local frames on each side, at most six, although two thirds of twelve are eight:
here each side gives as many as needed. If one side of the video is too short, the other gives more;
if both are, global frames fill up.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from harness.frames import uniform
from harness.models.videoseg_r1.sampler import Segment

Strategy: TypeAlias = Literal["global", "local", "adaptive"]


def choose_references(
    total: int, segment: Segment, *, wanted: int, strategy: Strategy
) -> tuple[int, ...]:
    """Return at most `wanted` frames outside `segment`, in order; fewer if there are no more.

    >>> choose_references(20, Segment(8, 11), wanted=6, strategy="adaptive")
    (0, 6, 7, 12, 13, 19)
    """
    outside = [frame for frame in range(total) if frame not in segment.frames()]
    local_count = {"global": 0, "local": wanted, "adaptive": wanted - wanted // 3}[strategy]
    local = frames_around(outside, segment, local_count)
    if strategy == "local":
        return tuple(local)
    others = [frame for frame in outside if frame not in set(local)]
    return tuple(sorted([*local, *spread(others, wanted - len(local))]))


def frames_around(outside: Sequence[int], segment: Segment, wanted: int) -> list[int]:
    """Return the `wanted` frames nearest to a segment, half before and half after it, in order.

    If one side has too few, the other side gives more.
    """
    before = [frame for frame in outside if frame < segment.start]
    after = [frame for frame in outside if frame > segment.end]
    late_count = min(len(after), wanted // 2)
    early_count = min(len(before), wanted - late_count)
    late_count = min(len(after), wanted - early_count)
    return [*before[len(before) - early_count :], *after[:late_count]]


def key_frames(segment: Segment, target: int, *, limit: int) -> tuple[int, ...]:
    """Return at most `limit` frames of the key segment, evenly spread, without the target frame."""
    return tuple(spread([frame for frame in segment.frames() if frame != target], limit))


def spread(frames: Sequence[int], limit: int) -> list[int]:
    """Return at most `limit` of the frames, evenly spread from the first to the last."""
    return [frames[index] for index in uniform(range(len(frames)), limit)] if limit > 0 else []

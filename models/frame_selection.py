"""Frames of a query that a network sees, and their size."""

from collections.abc import Sequence

from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.frames import FramePolicy, uniform
from harness.media import Media
from harness.types import Query


def frames_shown(query: Query, requests: Sequence[ChatRequest]) -> tuple[tuple[int, ...], ...]:
    """Return the frames of each of a query's media that requests show, each once, in order."""
    return tuple(
        tuple(
            sorted(
                {
                    frame
                    for request in requests
                    for place, shown in enumerate(request.media)
                    if shown is media
                    for frame in (request.frames[place] if request.frames else range(len(media)))
                }
            )
        )
        for media in query.media
    )


def choose_frames(media: Media, frames: int | FramePolicy) -> tuple[int, ...]:
    """Return the frames of a video by a rule: a number, evenly spread, or a policy."""
    if isinstance(frames, int):
        return uniform(range(len(media)), frames)
    return frames.choose(media.times()) if len(media) > 1 else (0,)


def pixel_budget(query: Query, frames: int | FramePolicy) -> tuple[int, int] | None:
    """Return (width, height) within a policy's budget of pixels; None: the rule has no budget.

    A question about images alone has the budget of images, any other that of frames.

    Raises:
        UsageError: there is a budget, and the query has images of several sizes, or more frames
            than it has room for.
    """
    sizes = {media.size for media in query.media}
    if isinstance(frames, int) or frames.budget is None:
        return None
    if len(sizes) > 1:
        raise UsageError(
            f"frames={frames}",
            expected="images of one size in a question where there is a budget of pixels",
            found=f"{len(sizes)} sizes",
        )
    longest = max(len(choose_frames(media, frames)) for media in query.media)
    is_image = all(len(media) == 1 for media in query.media)
    return frames.size(sizes.pop(), is_image=is_image, frames=longest)

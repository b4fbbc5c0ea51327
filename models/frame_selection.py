"""Choose the frames of a query that a network sees, their size in pixels, and the times it is told.

`PromptedRequests` calls these with the `frames=` setting: a number, or a `FramePolicy`.
"""

from collections.abc import Sequence

from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.frames import FramePolicy, uniform
from harness.media import Media
from harness.pixel_budget import Resample
from harness.types import Query


def frames_shown(query: Query, requests: Sequence[ChatRequest]) -> tuple[tuple[int, ...], ...]:
    """Return the frames of each medium that any request shows: sorted, without repetition."""
    return tuple(_frames_of(media, requests) for media in query.media)


def _frames_of(media: Media, requests: Sequence[ChatRequest]) -> tuple[int, ...]:
    """Return the frames of one medium that any request shows, in order."""
    frames: set[int] = set()
    for request in requests:
        for index, medium in enumerate(request.media):
            if medium is media:
                frames.update(request.frames[index] if request.frames else range(len(media)))
    return tuple(sorted(frames))


def choose_frames(media: Media, frames: int | FramePolicy) -> tuple[int, ...]:
    """Return the frames to show: evenly spread if `frames` is a number, else by the policy."""
    if isinstance(frames, int):
        return uniform(range(len(media)), frames)
    return frames.choose(media.times()) if len(media) > 1 else (0,)


def pixel_budget(query: Query, frames: int | FramePolicy) -> tuple[int, int] | None:
    """Return the (width, height) that a policy's pixel budget allows; None: there is no budget.

    A query of images only has the budget for images, any other query that for frames.

    Raises:
        UsageError: there is a budget, and the media differ in size, or have more frames than the
            budget allows.
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
    most_frames = max(len(choose_frames(media, frames)) for media in query.media)
    is_image = all(len(media) == 1 for media in query.media)
    return frames.size(sizes.pop(), is_image=is_image, frames=most_frames)


def told_times(query: Query, frames: int | FramePolicy) -> tuple[tuple[float, ...], ...]:
    """Return the times (seconds) that a policy states for the frames; empty: the frames' own."""
    if isinstance(frames, int):
        return ()
    seconds = [frames.told(media.times()) if len(media) > 1 else () for media in query.media]
    return tuple(seconds) if any(seconds) else ()


def resample(frames: int | FramePolicy) -> Resample:
    """Return the interpolation by which frames are resized to the size of the budget."""
    return "bilinear" if isinstance(frames, int) else frames.resample

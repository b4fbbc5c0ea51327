"""Batches with decoded images, for worker processes that may not read files."""

from dataclasses import replace

from harness.errors import MediaError
from harness.media import Media, pixels, placeholder_media
from harness.run.batching import Batch

MAX_CARRIED = 2**31  # largest size in bytes of one video's pixels that are sent to a worker


def with_decoded_media(batch: Batch) -> Batch:
    """Return a batch with decoded images, for a process that may not read files.

    An image that cannot be decoded, or is larger than `MAX_CARRIED`, becomes a placeholder with the
    error.
    """
    decoded: dict[int, Media] = {}  # by id(): queries about one video share it when pickled, too
    queries = []
    for query in batch.queries:
        for media in query.media:
            if id(media) not in decoded:
                decoded[id(media)] = _decode(media)
        queries.append(replace(query, media=tuple(decoded[id(media)] for media in query.media)))
    return replace(batch, queries=tuple(queries))


def _decode(media: Media) -> Media:
    """Return the decoded pixels of a medium, or a placeholder that raises the error of decoding."""
    size = 3 * media.size[0] * media.size[1] * len(media)
    if size > MAX_CARRIED:
        error = MediaError(
            repr(media),
            expected=f"at most {MAX_CARRIED} bytes of pixels for a process that may not read files",
            found=str(size),
            fix="Give the task a rule for frames, such as frames=32, or leave out --isolate.",
        )
        return placeholder_media(error, size=media.size, frames=len(media))
    try:
        frames = media.frames()
    except MediaError as error:
        return placeholder_media(error, size=media.size, frames=len(media))
    return pixels(frames, times=media.times(), is_video=media.is_video, id=media.id)

"""Problems of a benchmark's files in words, for people."""

from collections.abc import Iterator

from harness.errors import DataError
from harness.media import Media
from harness.run.batching import samples_of
from harness.task import Problem, Task


def problem_line(path: str, message: str) -> str:
    """Return a problem in one line, which names its path once.

    >>> problem_line("a.png", "is missing"), problem_line("a.json", "file a.json: expected JSON")
    ('a.png: is missing', 'file a.json: expected JSON')
    """
    return message if path in message else f"{path}: {message}"


def undecodable(task: Task, *, every: bool = False) -> Iterator[Problem]:
    """Yield videos that have a header and no frames, by decoding each one's first and last.

    Samples of one group share their media, which are decoded once. Media that are known
    to be lost are left to the task's own check.

    Args:
        task: The task whose media are decoded.
        every: Decode all frames, also of images.
    """
    seen: set[tuple[str, int]] = set()
    for sample in samples_of(task):
        for place, media in enumerate(sample.query.media):
            if media.fault or (sample.group, place) in seen or not (every or media.is_video):
                continue
            seen.add((sample.group, place))
            try:
                _decode(media, every=every)
            except DataError as error:
                yield Problem(sample.group, str(error))


def _decode(media: Media, *, every: bool) -> None:
    for index in range(len(media)) if every else dict.fromkeys((0, len(media) - 1)):
        media.frame(index)

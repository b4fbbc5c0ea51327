"""Place of a video in training: the key segment and target frame are drawn (appendix F)."""

import hashlib
from dataclasses import dataclass

import numpy as np

from harness.errors import ParseError, UsageError
from harness.models.videoseg_r1.sampler import KeySegment, Segment
from harness.types import Answer, Query


def visible(query: Query, answer: Answer) -> list[int]:
    """List the frames of a video in which a target is visible; all, if there is no target."""
    if answer.masks is not None and not answer.no_target:
        return [index for index, mask in enumerate(answer.masks) if mask.area]
    if answer.box_track is not None and not answer.no_target:
        return [index for index, box in enumerate(answer.box_track) if box is not None]
    return list(range(len(query.media[0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Draws target frame, key segment and reference frames of a query: the same ones each time.

    The target frame is any frame with a target object, the key segment is drawn around it, as long
    as the number of references but at most `delta` of the video, and the references are drawn from
    outside it.
    """

    seed: int
    min_references: int = 8
    """Minimum number of reference frames, where the video has them."""
    max_references: int = 12
    """Reference frames at most."""
    delta: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.min_references <= self.max_references:
            raise UsageError(
                "min_references, max_references",
                expected="0 or more, in order",
                found=f"{self.min_references}, {self.max_references}",
            )

    def draw(self, query: Query, answer: Answer) -> tuple[KeySegment, tuple[int, ...]]:
        """Draw the place of a query's video, and the reference frames.

        A query that comes again under another id has another draw.

        Raises:
            ParseError: no frame shows a target.
        """
        seen = visible(query, answer)
        if not seen:
            raise ParseError(
                "answer to draw a frame of", expected="a frame that shows the target", found="none"
            )
        named = f"{self.seed}\x00{query.id}\x00{query.text}".encode("utf-8", "replace")
        digest = hashlib.blake2b(named, digest_size=16).digest()
        draw = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
        total = len(query.media[0])
        target = seen[int(draw.integers(len(seen)))]
        wanted = int(draw.integers(self.min_references, self.max_references + 1))
        length = max(1, min(wanted, int(self.delta * total)))
        earliest, latest = max(0, target - length + 1), min(target, total - length)
        start = int(draw.integers(earliest, latest + 1))
        segment = Segment(start, start + length - 1)
        outside = [frame for frame in range(total) if frame not in segment.frames()]
        chosen = draw.permutation(len(outside))[:wanted]
        return KeySegment(segment, target), tuple(sorted(outside[int(index)] for index in chosen))

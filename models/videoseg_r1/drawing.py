"""Draw at random the key segment, target frame and reference frames for training (appendix F).

In training they are random, around a frame that shows the ground truth; in evaluation the sampler
(`sampler.py`) finds them.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from harness.errors import ParseError, UsageError
from harness.models.videoseg_r1.sampler import KeyChoice, Segment
from harness.types import Answer, Query


def visible(query: Query, answer: Answer) -> list[int]:
    """Return the frames of a video in which the target is visible; all if there is no target."""
    if answer.masks is not None and not answer.no_target:
        return [index for index, mask in enumerate(answer.masks) if mask.area]
    if answer.box_track is not None and not answer.no_target:
        return [index for index, box in enumerate(answer.box_track) if box is not None]
    return list(range(len(query.media[0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Draws target frame, key segment and reference frames; equal queries give equal draws.

    The target frame is a random frame with a target object. The key segment lies around it; its
    length is the number of references, but at most `delta` of the video. The references are random
    frames outside of it.
    """

    seed: int
    min_references: int = 8
    """Smallest number of reference frames, if the video has that many."""
    max_references: int = 12
    """Largest number of reference frames."""
    delta: float = 0.3
    """Largest share of the video that the key segment takes."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_references <= self.max_references:
            raise UsageError(
                "min_references, max_references",
                expected="0 or more, in order",
                found=f"{self.min_references}, {self.max_references}",
            )

    def draw(self, query: Query, answer: Answer) -> tuple[KeyChoice, tuple[int, ...]]:
        """Return key segment and target frame of a query's video, and the reference frames.

        The draw depends on seed, query id and text.

        Raises:
            ParseError: no frame shows a target.
        """
        candidates = visible(query, answer)
        if not candidates:
            raise ParseError(
                "answer to draw a frame of", expected="a frame that shows the target", found="none"
            )
        key = f"{self.seed}\x00{query.id}\x00{query.text}".encode("utf-8", "replace")
        digest = hashlib.blake2b(key, digest_size=16).digest()
        generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
        total = len(query.media[0])
        target = candidates[int(generator.integers(len(candidates)))]
        n_references = int(generator.integers(self.min_references, self.max_references + 1))
        length = max(1, min(n_references, int(self.delta * total)))
        # first frames of the segments that lie in the video and hold the target
        earliest, latest = max(0, target - length + 1), min(target, total - length)
        start = int(generator.integers(earliest, latest + 1))
        segment = Segment(start, start + length - 1)
        outside = [frame for frame in range(total) if frame not in segment.frames()]
        chosen = generator.permutation(len(outside))[:n_references]
        return KeyChoice(segment, target), tuple(sorted(outside[int(index)] for index in chosen))

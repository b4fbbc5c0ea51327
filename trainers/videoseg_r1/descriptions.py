"""Description of a sample for the difficulty scorer (appendix D.1), from its ground truth.

The paper generates a visual description "based on the segmentation mask properties (e.g., size and
position)" and a textual one from the expression ("e.g., expression length and the number of spatial
terms"), and prints neither; these are ours.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

import numpy as np

from harness.models.response_writer import objects_in, training_answer
from harness.models.videoseg_r1.drawing import visible
from harness.types import Sample

WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Look of the targets in one frame of a video, and over all of it; lengths by the side's."""

    share: float
    """Share of the frame's pixels."""
    x: float
    """Horizontal place of its middle: 0 left, 1 right."""
    y: float
    """Vertical place of its middle: 0 top, 1 bottom."""
    pieces: int
    """Number of objects: instances, or connected parts where those are not known."""
    seen: float
    """Share of the video's frames in which it is seen."""
    gaps: int
    """Number of times that it returns after an absence."""
    speed: float
    """Mean step of its middle from one frame to the next, as a part of the diagonal."""


def appearance_of(sample: Sample, frame: int) -> Looks | None:
    """Return the look of a sample's masks; None if it has none, or an empty one in this frame."""
    assert sample.target is not None, "samples without targets are left out"
    answer = sample.target.answer
    masks = answer.masks
    if masks is None or not masks[frame].area:
        return None
    seen = visible(sample.query, answer)
    middles = {index: _middle(masks[index].to_array()) for index in seen}
    x, y = middles[frame]
    moves = [
        float(np.hypot(*np.subtract(middles[a], middles[b]))) / np.sqrt(2) / (b - a)
        for a, b in pairwise(seen)
    ]
    width, height = sample.query.size
    pieces = len(objects_in(training_answer(answer, [frame]), frame))
    return Looks(
        share=masks[frame].area / (width * height),
        x=x,
        y=y,
        pieces=pieces,
        seen=len(seen) / len(masks),
        gaps=sum(b - a > 1 for a, b in pairwise(seen)),
        speed=float(np.mean(moves)) if moves else 0.0,
    )


def visual_description(sample: Sample, frame: int) -> str:
    """A sentence or two about the mask in the target frame, and about its track."""
    appearance = appearance_of(sample, frame)
    if appearance is None:
        return "Visual description: there is no mask of the target."
    column = ("left", "middle", "right")[min(int(appearance.x * 3), 2)]
    row = ("upper", "central", "lower")[min(int(appearance.y * 3), 2)]
    text = (
        f"Visual description: the mask covers {appearance.share:.1%} of the segmentation frame, as "
        f"{appearance.pieces} object(s), with its centre in the {row} {column} third."
    )
    if len(sample.query.media[0]) > 1:
        text += (
            f" The target is seen in {appearance.seen:.0%} of the frames and comes back "
            f"{appearance.gaps} time(s) after leaving."
        )
    return text


def textual_description(text: str) -> str:
    """A sentence about a referring expression.

    >>> textual_description("the man left of the car")
    'Textual description: the expression has 6 word(s), 1 of them spatial.'
    """
    words, spatial = words_of(text)
    return f"Textual description: the expression has {words} word(s), {spatial} of them spatial."


@lru_cache
def spatial_words() -> frozenset[str]:
    """Return words for a place, or for a place in a row."""
    text = files("harness.trainers.videoseg_r1").joinpath("spatial_words.txt").read_text("utf-8")
    return frozenset(text.split())


def words_of(text: str) -> tuple[int, int]:
    """(words, spatial words) of an expression."""
    words = WORD.findall(text.lower())
    return len(words), sum(word in spatial_words() for word in words)


def _middle(mask: np.ndarray) -> tuple[float, float]:
    rows, columns = np.nonzero(mask)
    return float(columns.mean() / mask.shape[1]), float(rows.mean() / mask.shape[0])

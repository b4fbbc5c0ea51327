"""Describe a sample's mask and expression in words, for the rater of difficulty (appendix D.1).

The paper generates a visual description "based on the segmentation mask properties (e.g., size and
position)" and a textual one from the expression ("e.g., expression length and the number of spatial
terms"), but prints neither; these are ours.
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

WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")  # "man" or "man's"


@dataclass(frozen=True, slots=True, kw_only=True)
class Appearance:
    """Size and place of the targets in one frame, and their visibility and motion in the video."""

    share: float
    """Share of the frame's pixels."""
    x: float
    """Horizontal place of the mask's centre: 0 left, 1 right."""
    y: float
    """Vertical place of the mask's centre: 0 top, 1 bottom."""
    pieces: int
    """Number of objects: instances, or connected parts if instances are not known."""
    seen: float
    """Share of the video's frames in which the targets are seen."""
    gaps: int
    """Number of times that they return after an absence."""
    speed: float
    """Mean motion of the centre from one frame to the next, as a share of the diagonal."""


def appearance_of(sample: Sample, frame: int) -> Appearance | None:
    """Return the appearance of a sample's masks; None: no mask, or an empty one in this frame."""
    assert sample.target is not None, "samples without targets are left out"
    answer = sample.target.answer
    masks = answer.masks
    if masks is None or not masks[frame].area:
        return None
    visible_frames = visible(sample.query, answer)
    centres = {index: _centre(masks[index].to_array()) for index in visible_frames}
    x, y = centres[frame]
    speeds = [
        float(np.hypot(*np.subtract(centres[first], centres[second])))
        / np.sqrt(2)  # the diagonal, where both sides are 1
        / (second - first)
        for first, second in pairwise(visible_frames)
    ]
    width, height = sample.query.size
    pieces = len(objects_in(training_answer(answer, [frame]), frame))
    return Appearance(
        share=masks[frame].area / (width * height),
        x=x,
        y=y,
        pieces=pieces,
        seen=len(visible_frames) / len(masks),
        gaps=sum(second - first > 1 for first, second in pairwise(visible_frames)),
        speed=float(np.mean(speeds)) if speeds else 0.0,
    )


def visual_description(sample: Sample, frame: int) -> str:
    """Return sentences about the mask in the target frame and, for a video, about its track."""
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
    """Return a sentence about a referring expression.

    >>> textual_description("the man left of the car")
    'Textual description: the expression has 6 word(s), 1 of them spatial.'
    """
    total, spatial = count_words(text)
    return f"Textual description: the expression has {total} word(s), {spatial} of them spatial."


@lru_cache
def spatial_words() -> frozenset[str]:
    """Return the words that count as spatial, such as `left` or `third`."""
    text = files("harness.trainers.videoseg_r1").joinpath("spatial_words.txt").read_text("utf-8")
    return frozenset(text.split())


def count_words(text: str) -> tuple[int, int]:
    """Return the number of words and the number of spatial words of an expression."""
    all_words = WORD.findall(text.lower())
    return len(all_words), sum(word in spatial_words() for word in all_words)


def _centre(mask: np.ndarray) -> tuple[float, float]:
    """Return (x, y) of a mask's centre (mask: height × width), each from 0 to 1."""
    rows, columns = np.nonzero(mask)
    return float(columns.mean() / mask.shape[1]), float(rows.mean() / mask.shape[0])

"""Salience of the pixels of an image, or of the clearest frame of a video."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.media import Frame, Media
from harness.models.saliency.background import salience
from harness.models.saliency.motion import motion_evidence
from harness.models.saliency.superpixels import superpixels

Field = NDArray[np.float32]

REGIONS = 300  # superpixels; the paper's 200 to 300
MAX_SIDE = 320  # pixels; superpixels are then about 14 pixels across


@dataclass(frozen=True, slots=True)
class SalienceMap:
    """Salience of each pixel of one frame, by colour and by motion."""

    index: int
    """The frame."""
    field: Field
    """Height × width of the shrunk frame, from 0 to 1."""
    clarity: float
    """Contrast of the salient part to the rest, in the map and in motion; from 0 to 2."""


def salience_map(media: Media, index: int) -> SalienceMap:
    """The map of one frame, which is compared with the frames before and after it."""
    frame = shrink_frame(media.frame(index))
    near = [shrink_frame(media.frame(i)) for i in (index - 1, index + 1) if 0 <= i < len(media)]
    regions = superpixels(frame, REGIONS)
    motion = motion_evidence(regions, frame, near) if near else None
    field = regions.paint(salience(regions, (frame.shape[1], frame.shape[0]), motion=motion))
    clarity = gap(field, field)
    if motion is not None:
        clarity += gap(regions.paint(motion), field)
    return SalienceMap(index, field, clarity)


def clearest(media: Media, candidates: int) -> SalienceMap:
    """The clearest map among evenly spread frames; of equal ones the nearest to the middle."""
    middle = (len(media) - 1) / 2
    maps = (salience_map(media, index) for index in spread(len(media), candidates))
    return max(maps, key=lambda entry: (entry.clarity, -abs(entry.index - middle)))


def frames_seen(length: int, candidates: int) -> int:
    """Return the number of frames that `clearest` looks at: the candidates and their neighbours."""
    chosen = spread(length, candidates)
    near = {index + step for index in chosen for step in (-1, 0, 1)}
    return len(near & set(range(length)))


def spread(length: int, count: int) -> list[int]:
    """Return at most `count` different indices below `length`, in the middles of equal stretches.

    >>> spread(10, 3), spread(2, 5)
    ([1, 5, 8], [0, 1])
    """
    count = min(length, count)
    return [((2 * place + 1) * length) // (2 * count) for place in range(count)]


def otsu_mask(field: Field) -> NDArray[np.bool_]:
    """Return the salient pixels of a map from 0 to 1, by Otsu's threshold; none of a flat map."""
    levels = np.rint(field * 255).astype(np.uint8)
    if levels.min() == levels.max():
        return np.zeros(levels.shape, dtype=np.bool_)
    level, _ = cv2.threshold(levels, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    return levels > level


def gap(field: Field, salience: Field) -> float:
    """Return the mean of a field on the salient part less its mean elsewhere; 0 without such a
    part.
    """
    bright = otsu_mask(salience)
    if bright.all() or not bright.any():
        return 0.0
    inside, outside = field[bright], field[~bright]
    return round(float(inside.mean(dtype=np.float64) - outside.mean(dtype=np.float64)), 6)


def shrink_frame(frame: Frame) -> Frame:
    """The frame with its longest side at most MAX_SIDE pixels."""
    height, width = frame.shape[:2]
    scale = min(1.0, MAX_SIDE / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return cv2.resize(frame, size, interpolation=cv2.INTER_AREA).astype(np.uint8)

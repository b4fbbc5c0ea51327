"""Salience of the pixels of a picture, or of the most telling frame of a video."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.media import Frame, Media
from harness.models.saliency.background import salience
from harness.models.saliency.motion import motion_evidence
from harness.models.saliency.superpixels import superpixels

REGIONS = 300  # superpixels; the paper's 200 to 300
MAX_SIDE = 320  # pixels; superpixels of about 14 pixels across


@dataclass(frozen=True, slots=True)
class SalienceMap:
    """How much each pixel of one frame stands out."""

    index: int
    """The frame."""
    field: NDArray[np.float32]
    """height × width of the shrunk frame, from 0 to 1."""
    seen: int
    """Frames that were looked at."""


def salience_map(media: Media, *, candidates: int) -> SalienceMap:
    """The map of a picture, or of the frame of a video whose map is the clearest.

    Args:
        media: a picture, or a video of which neighbouring frames are compared.
        candidates: at most this many frames, evenly spread, are looked at with their neighbours.
    """
    chosen = spread(len(media), candidates)
    maps = [(index, _map(media, index)) for index in chosen]
    seen = {near for index in chosen for near in (index - 1, index, index + 1)}
    index, field = max(maps, key=lambda entry: (clarity(entry[1]), -entry[0]))
    return SalienceMap(index, field, len(seen & set(range(len(media)))))


def spread(length: int, count: int) -> list[int]:
    """At most `count` different indices below `length`, in the middles of equal stretches.

    >>> spread(10, 3), spread(2, 5)
    ([1, 5, 8], [0, 1])
    """
    count = min(length, count)
    return [((2 * place + 1) * length) // (2 * count) for place in range(count)]


def clarity(field: NDArray[np.float32]) -> float:
    """How well two classes explain a map: Otsu's criterion, from 0 to 1; 0 for a flat one."""
    bright = field >= threshold(field)
    share, spread_ = float(bright.mean()), float(field.var())
    if share in (0.0, 1.0) or spread_ < 1e-9:
        return 0.0
    between = share * (1 - share) * float(field[bright].mean() - field[~bright].mean()) ** 2
    return round(between / spread_, 6)


def threshold(field: NDArray[np.float32]) -> float:
    """Otsu's threshold of a map from 0 to 1: what is at least as high stands out."""
    levels = np.rint(field * 255).astype(np.uint8)
    level, _ = cv2.threshold(levels, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    return (level + 0.5) / 255


def shrunk(frame: Frame) -> Frame:
    """The frame with its longest side at most MAX_SIDE pixels."""
    height, width = frame.shape[:2]
    scale = min(1.0, MAX_SIDE / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return cv2.resize(frame, size, interpolation=cv2.INTER_AREA).astype(np.uint8)


def _map(media: Media, index: int) -> NDArray[np.float32]:
    frame = shrunk(media.frame(index))
    near = [shrunk(media.frame(i)) for i in (index - 1, index + 1) if 0 <= i < len(media)]
    regions = superpixels(frame, REGIONS)
    motion = motion_evidence(regions, frame, near) if near else None
    size = (frame.shape[1], frame.shape[0])
    return regions.paint(salience(regions, size, motion=motion))

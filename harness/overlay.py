"""Drawing of answers on images, for reports: tints, outlines, rectangles, images side by side.

Every function takes and returns images of height × width × 3, uint8, RGB, origin at the top
left, and leaves its input as it was. Coordinates are pixels of the image that is drawn on.
"""

from collections.abc import Sequence
from typing import TypeAlias

import cv2
import numpy as np
from PIL import Image

from harness.errors import MaskError, MediaError
from harness.masks import BoolArray
from harness.media import Frame

Colour: TypeAlias = tuple[int, int, int]
"""Red, green and blue from 0 to 255."""

# Two of Okabe and Ito's colours, which stay apart for the colour-blind and in grey.
GROUND_TRUTH: Colour = (0, 158, 115)
PREDICTION: Colour = (213, 94, 0)
WHITE: Colour = (255, 255, 255)


def tint(image: Frame, mask: BoolArray, *, colour: Colour, alpha: float = 0.5) -> Frame:
    """Blend `colour` into the pixels of `mask` (height × width); `alpha` 1 covers them.

    Raises:
        MaskError: the mask is not of the image's size.
    """
    _check(image, mask)
    tinted = image.copy()
    blended = image[mask] * (1 - alpha) + np.asarray(colour, dtype=np.float64) * alpha
    tinted[mask] = np.rint(blended).astype(np.uint8)
    return tinted


def outline(image: Frame, mask: BoolArray, *, colour: Colour, width: int = 2) -> Frame:
    """Paint the outermost `width` pixels of `mask` (height × width) in `colour`.

    Where the mask touches the image's border, the line runs along the border.

    Raises:
        MaskError: the mask is not of the image's size.
    """
    _check(image, mask)
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    padded = np.pad(mask, 1).astype(np.uint8)
    inside = np.asarray(cv2.erode(padded, cross, iterations=width)).astype(np.bool_)
    outlined = image.copy()
    outlined[mask & ~inside[1:-1, 1:-1]] = colour
    return outlined


def rectangle(
    image: Frame,
    box: tuple[float, float, float, float],
    *,
    colour: Colour,
    width: int = 2,
) -> Frame:
    """Paint the frame of a box (left, top, right, bottom; the last two exclusive).

    What lies outside the image is not drawn.
    """
    height, across = image.shape[:2]
    if box[2] <= 0 or box[3] <= 0:
        return image.copy()
    left, right = sorted(_whole_edge(edge, across) for edge in (box[0], box[2]))
    top, bottom = sorted(_whole_edge(edge, height) for edge in (box[1], box[3]))
    area = np.zeros((height, across), dtype=np.bool_)
    area[top : max(bottom, top + 1), left : max(right, left + 1)] = True
    return outline(image, area, colour=colour, width=width)


def dot(image: Frame, point: tuple[float, float], *, colour: Colour, radius: int = 4) -> Frame:
    """Paint a disc around a point (x, y), with a white rim so that it shows on any ground."""
    rows, columns = np.ogrid[: image.shape[0], : image.shape[1]]
    distance = np.hypot(columns + 0.5 - point[0], rows + 0.5 - point[1])
    dotted = image.copy()
    dotted[distance <= radius + 1.5] = WHITE
    dotted[distance <= radius] = colour
    return dotted


def thumbnail(image: Frame, *, width: int) -> Frame:
    """Return the image reduced to `width` pixels across by averaging; narrower ones unchanged."""
    if image.shape[1] <= width:
        return image
    height = max(1, round(image.shape[0] * width / image.shape[1]))
    small = Image.fromarray(image).resize((width, height), Image.Resampling.BOX)
    return np.asarray(small)


def side_by_side(images: Sequence[Frame], *, gap: int = 8) -> Frame:
    """Images in a row from left to right, `gap` pixels apart, aligned at the top.

    Raises:
        MediaError: there are none.
    """
    if not images:
        raise MediaError("images side by side", expected="at least one", found="none")
    height = max(image.shape[0] for image in images)
    width = sum(image.shape[1] for image in images) + gap * (len(images) - 1)
    row = np.empty((height, width, 3), dtype=np.uint8)
    row[:] = WHITE
    left = 0
    for image in images:
        row[: image.shape[0], left : left + image.shape[1]] = image
        left += image.shape[1] + gap
    return row


def _check(image: Frame, mask: BoolArray) -> None:
    if mask.shape != image.shape[:2]:
        raise MaskError(
            "mask to draw",
            expected=f"{image.shape[1]} × {image.shape[0]} pixels, as the image",
            found=f"shape {mask.shape}",
        )


def _whole_edge(edge: float, limit: int) -> int:
    return round(min(max(edge, 0), limit))

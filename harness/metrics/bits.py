"""Binary pictures as bits, 64 pixels to a word: outlines and dilation in a few word operations."""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray

Words: TypeAlias = NDArray[np.uint64]
"""Pictures as bits: words × pictures × rows. Column c is bit c % 64 of word c // 64. Words come
first so that moving pixels by a row or by a column moves long stretches of memory."""


def pack(*masks: BoolArray) -> Words:
    """Boolean arrays of rows × columns as bits; bits after the last column are 0.

    >>> pack(np.array([[True, False, True], [False, True, False]]))
    array([[[5, 2]]], dtype=uint64)
    """
    rows, columns = masks[0].shape
    packed = np.zeros((len(masks), rows, math.ceil(columns / 64) * 8), dtype=np.uint8)
    for place, mask in enumerate(masks):
        packed[place, :, : math.ceil(columns / 8)] = np.packbits(mask, axis=1, bitorder="little")
    words: Words = np.ascontiguousarray(packed.view("<u8").transpose(2, 0, 1))
    return words


def unpack(pictures: Words, columns: int) -> BoolArray:
    """The inverse of `pack`: a boolean array of pictures × rows × columns.

    >>> unpack(pack(np.eye(2, dtype=bool)), 2)
    array([[[ True, False],
            [False,  True]]])
    """
    octets = np.ascontiguousarray(pictures.transpose(1, 2, 0)).astype("<u8").view(np.uint8)
    return np.unpackbits(octets, axis=2, count=columns, bitorder="little").view(np.bool_)


def outline(pictures: Words, columns: int) -> Words:
    """Pixels that differ from their right, lower or lower right neighbour.

    The last row and column are taken to go on outside, which is the official rule at the frame's
    edge: there only the neighbour along the edge counts, and the corner is never drawn. A mask
    that touches the edge has therefore no outline along it.

    >>> corner = np.array([[0, 0, 0], [0, 1, 1], [0, 1, 1]], dtype=bool)
    >>> unpack(outline(pack(corner), 3), 3).astype(int)
    array([[[1, 1, 1],
            [1, 0, 0],
            [1, 0, 0]]])
    """
    last = np.uint64(1 << (columns - 1) % 64)
    right = pictures >> np.uint64(1)
    right[:-1] |= pictures[1:] << np.uint64(63)
    right[-1] |= pictures[-1] & last
    drawn: Words = (pictures ^ right) | (pictures ^ _lower(pictures)) | (pictures ^ _lower(right))
    return drawn


def _lower(pictures: Words) -> Words:
    """Each pixel's lower neighbour; under the last row lies the last row."""
    return np.concatenate((pictures[..., 1:], pictures[..., -1:]), axis=-1)


def dilate_by_disk(pictures: Words, radius: int) -> Words:
    """Dilate by the disk x² + y² ≤ radius², in pixels; nothing comes in from outside.

    Rows are widened by one pixel at a time, and each row of the disk takes them at its own width:
    a few operations on words for each pixel of the radius, whatever the pictures hold. Bits after
    the last column may be set in the result.

    >>> unpack(dilate_by_disk(pack(np.pad([[True]], 2)), 2), 5).astype(int)
    array([[[0, 0, 1, 0, 0],
            [0, 1, 1, 1, 0],
            [1, 1, 1, 1, 1],
            [0, 1, 1, 1, 0],
            [0, 0, 1, 0, 0]]])
    """
    reach = [math.isqrt(radius * radius - y * y) for y in range(radius + 1)]
    grown, wide, rows = pictures.copy(), pictures, pictures.shape[2]
    for width in range(radius + 1):
        wide = _widen(wide) if width else wide
        for y in range(min(radius + 1, rows)):
            if reach[y] == width:
                grown[..., y:] |= wide[..., : rows - y]
                grown[..., : rows - y] |= wide[..., y:]
    return grown


def _widen(pictures: Words) -> Words:
    """Every pixel with its left and right neighbours."""
    wide: Words = pictures | (pictures << np.uint64(1)) | (pictures >> np.uint64(1))
    wide[1:] |= pictures[:-1] >> np.uint64(63)
    wide[:-1] |= pictures[1:] << np.uint64(63)
    return wide

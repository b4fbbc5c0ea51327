"""Binary images as bits, 64 pixels to a word: outlines and dilation in a few word operations."""

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray

Words: TypeAlias = NDArray[np.uint64]
"""Images as bits: images × rows × words. Column c is bit c % 64 of word c // 64. Every image has a
gap of empty columns to its right and of empty rows below, so that all of them are one long row of
words: moving every pixel by rows or columns is one move, and pixels that leave a row or an image
fall into a gap."""


def pack(*masks: BoolArray, gap: int) -> Words:
    """Boolean arrays of rows × columns as bits, with gaps of at least `gap` rows and columns.

    >>> pack(np.array([[True, False, True], [False, True, False]]), gap=1)
    array([[[5],
            [2],
            [0]]], dtype=uint64)
    """
    return _pack_bits(_pad_words(masks, gap))


def unpack(images: Words, rows: int, columns: int) -> BoolArray:
    """The inverse of `pack`: a boolean array of images × rows × columns.

    >>> unpack(pack(np.eye(2, dtype=bool), gap=3), 2, 2)
    array([[[ True, False],
            [False,  True]]])
    """
    octets = images.astype("<u8").view(np.uint8)
    pixels = np.unpackbits(octets, axis=2, bitorder="little").view(np.bool_)
    return pixels[:, :rows, :columns]


def outline(*masks: BoolArray, gap: int) -> Words:
    """Pixels that differ from their right, lower or lower right neighbour, as bits.

    The last row and column are taken to go on outside, which is the official rule at the frame's
    edge: there only the neighbour along the edge counts, and the corner is never drawn. A mask
    that touches the edge has therefore no outline along it. `gap` is at least 1.

    >>> corner = np.array([[0, 0, 0], [0, 1, 1], [0, 1, 1]], dtype=bool)
    >>> unpack(outline(corner, gap=1), 3, 3).astype(int)
    array([[[1, 1, 1],
            [1, 0, 0],
            [1, 0, 0]]])
    """
    rows, columns = masks[0].shape
    padded = _pad_words(masks, gap)
    padded[:, rows] = padded[:, rows - 1]
    padded[:, :, columns] = padded[:, :, columns - 1]
    packed = _pack_bits(padded)
    here, below = packed.ravel(), packed.shape[2]
    right = here >> np.uint64(1)
    right[:-1] |= here[1:] << np.uint64(63)
    drawn = here ^ right
    drawn[:-below] |= here[:-below] ^ here[below:]
    drawn[:-below] |= here[:-below] ^ right[below:]
    images = drawn.reshape(packed.shape)
    images[:, rows:] = 0
    images[:, :, columns // 64] &= np.uint64((1 << columns % 64) - 1)
    images[:, :, columns // 64 + 1 :] = 0
    return images


def dilate_by_disk(images: Words, radius: int) -> Words:
    """Dilate by the disk x² + y² ≤ radius², in pixels; pixels outside count as empty.

    Rows are widened step by step, and each row of the disk takes them at its own width: a few
    operations on words for each pixel of the radius, whatever the images hold. The gap must be at
    least the radius; what grows beyond an image lies there in the result.

    >>> dot = np.pad([[True]], 2)
    >>> unpack(dilate_by_disk(pack(dot, gap=2), 2), 5, 5).astype(int)
    array([[[0, 0, 1, 0, 0],
            [0, 1, 1, 1, 0],
            [1, 1, 1, 1, 1],
            [0, 1, 1, 1, 0],
            [0, 0, 1, 0, 0]]])
    """
    reach = [math.isqrt(radius * radius - y * y) for y in range(radius + 1)]
    wide, width = images.ravel(), 0
    grown = wide.copy()
    for target in sorted(set(reach)):
        while width < target:
            step = min(target - width, 2 * width + 1)
            wide, width = _widen(wide, step), width + step
        for y in (y for y in range(radius + 1) if reach[y] == target):
            moved = min(y * images.shape[2], wide.size)
            grown[moved:] |= wide[: wide.size - moved]
            grown[: wide.size - moved] |= wide[moved:]
    return grown.reshape(images.shape)


def _widen(row: Words, step: int) -> Words:
    """Set every pixel that is set itself or `step` columns (up to 63) to its left or right."""
    by, rest = np.uint64(step), np.uint64(64 - step)
    wide = row << by
    wide |= row >> by
    wide |= row
    wide[1:] |= row[:-1] >> rest
    wide[:-1] |= row[1:] << rest
    return wide


def _pad_words(masks: Sequence[BoolArray], gap: int) -> BoolArray:
    """All masks with their gaps, in whole words: images × rows × columns."""
    rows, columns = masks[0].shape
    words = math.ceil((columns + gap) / 64)
    padded = np.zeros((len(masks), rows + gap, words * 64), dtype=np.bool_)
    for place, mask in enumerate(masks):
        padded[place, :rows, :columns] = mask
    return padded


def _pack_bits(pixels: BoolArray) -> Words:
    octets = np.packbits(pixels.ravel(), bitorder="little").view("<u8")
    return octets.astype(np.uint64, copy=False).reshape(*pixels.shape[:2], -1)

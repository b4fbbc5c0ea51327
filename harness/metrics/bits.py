"""Outlines and dilation of two binary images at once, packed as bits, for the boundary F-measure.

Each image is cut into four strips of rows, and a byte holds one pixel of every strip of both images
(4 × 2 bits). Moving all pixels by rows or columns is then a slice of the bytes, without shifting
bits, and one operation on the array works on all pixels of both images. `harness.metrics.boundary`
uses it for speed: the counts are those of ordinary boolean images.
"""

import math
from functools import cache
from itertools import product
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray

Strips: TypeAlias = NDArray[np.uint8]
"""Two images as bits: height × columns, where height is the number of rows of a strip. Row r of
image i (0 or 1) is bit 2 × (r // height) + i of row r % height. To the right of every row is a gap
of empty columns, so that all rows can be treated as one: pixels leaving a row fall into a gap."""
Words: TypeAlias = NDArray[np.uint64]
"""Bytes of `Strips`, eight at a time."""

STRIPS = 4
FIRST = np.uint64(0x5555_5555_5555_5555)  # the bits of the first image
LONGEST = 4  # most rows and columns between the pixels of a pair; longer pairs save nothing


def pack(first: BoolArray, second: BoolArray, gap: int) -> Strips:
    """Pack two boolean arrays of rows × columns as bits, with a gap of at least `gap` columns.

    >>> pack(np.array([[True, False, True]]), np.array([[True, True, False]]), gap=1)
    array([[3, 2, 1, 0, 0, 0, 0, 0]], dtype=uint8)
    """
    return _widen(_fold(first, second, gap), gap)


def unpack(strips: Strips, rows: int, columns: int) -> BoolArray:
    """Undo `pack`: return a boolean array of images × rows × columns.

    >>> unpack(pack(np.eye(2, dtype=bool), np.ones((2, 2), bool), gap=3), 2, 2).astype(int)
    array([[[1, 0],
            [0, 1]],
    <BLANKLINE>
           [[1, 1],
            [1, 1]]])
    """
    pixels = np.unpackbits(strips[..., None], axis=2, bitorder="little").view(np.bool_)
    images = pixels.reshape(*strips.shape, STRIPS, 2).transpose(3, 2, 0, 1)
    return images.reshape(2, -1, strips.shape[1])[:, :rows, :columns]


def outline(first: BoolArray, second: BoolArray, gap: int) -> Strips:
    """Return the pixels that differ from their right, lower or lower right neighbour, as bits.

    The last row and column are taken to go on outside, which is the official rule at the frame's
    edge: there only the neighbour along the edge counts, and the corner is never drawn. A mask
    that touches the edge has therefore no outline along it. `gap` is at least 1. Empty columns at
    the left and right, but for one on each side, are left out of the result.

    >>> corner = np.array([[0, 0, 0], [0, 1, 1], [0, 1, 1]], dtype=bool)
    >>> unpack(outline(corner, corner, gap=1), 3, 3)[0].astype(int)
    array([[1, 1, 1],
           [1, 0, 0],
           [1, 0, 0]])
    """
    folded = _fold(first, second, gap)
    used = np.bitwise_or.reduce(folded, axis=0).nonzero()[0]
    if used.size:  # columns that are empty in both images need no work
        folded = folded[:, max(used[0] - 1, 0) : used[-1] + 2]
    height, columns = folded.shape
    strips = _widen(folded, gap)
    strips[:, columns] = strips[:, columns - 1]  # the last column goes on outside
    width = strips.shape[1]
    # Below the last row of a strip is the first row of the next one, whose bits are 2 higher.
    pixels = np.concatenate((strips, strips[:1] >> 2)).ravel()
    any_set, all_set = pixels[:-width] | pixels[width:], pixels[:-width] & pixels[width:]
    # A pixel is on the outline if some, but not all, of itself and its three neighbours are set.
    np.bitwise_xor(any_set[:-1] | any_set[1:], all_set[:-1] & all_set[1:], out=strips.ravel()[:-1])
    # In the images' last row, the bits of its strip, only the right neighbour counts.
    strip, row = divmod(len(first) - 1, height)
    last = pixels[row * width : (row + 1) * width + 1]
    strips[row] &= (last[:-1] ^ last[1:]) | (0xFF ^ 0b11 << 2 * strip)
    strips[:, columns:] = 0
    return strips


def dilate_by_disk(strips: Strips, radius: int) -> Strips:
    """Dilate by the disk x² + y² ≤ radius², in pixels; pixels outside count as empty.

    The disk is the Minkowski sum of pairs of pixels and a rest (`_disk`). The pixels are first
    dilated by each pair, then by each row of the rest, from the shortest row to the longest: a few
    operations on bytes, whatever the images hold. Strips must have at least `radius` rows, and the
    gap at least `radius` columns, as pixels may grow so far beyond an image.

    >>> dot = np.pad([[True]], 2)
    >>> unpack(dilate_by_disk(pack(dot, dot, gap=2), 2), 5, 5)[0].astype(int)
    array([[0, 0, 1, 0, 0],
           [0, 1, 1, 1, 0],
           [1, 1, 1, 1, 1],
           [0, 1, 1, 1, 0],
           [0, 0, 1, 0, 0]])
    """
    height, width = strips.shape
    above, below = strips[height - radius :] * 4, strips[:radius] >> 2
    wide = np.concatenate((above, strips, below)).ravel()
    pairs, rows = _disk(radius)
    for y, x in pairs:
        move = y * width + x
        wide = wide[:-move] | wide[move:]
    length, grown = 1, np.zeros(strips.size, dtype=np.uint8)
    for target, y, x in rows:
        while length < target:  # `wide` is dilated by a row of `length` pixels; at most double it
            step = min(length, target - length)
            wide, length = wide[:-step] | wide[step:], length + step
        start = y * width + x
        grown |= wide[start : start + grown.size]
    return grown.reshape(strips.shape)


def split(strips: Strips) -> tuple[Words, Words]:
    """Return the pixels of the (first, second) image, both moved to the bits of the first."""
    words = strips.view(np.uint64)
    return words & FIRST, words >> np.uint64(1) & FIRST


def count(words: Words) -> int:
    """Return the number of bits that are set."""
    return int(cv2.norm(words.view(np.uint8), cv2.NORM_HAMMING))


@cache
def _disk(radius: int) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
    """Write a disk as the Minkowski sum of pairs of pixels and a rest.

    A pair is split off while dilating by it restores the remaining shape from a smaller one.

    Returns:
        Pairs, as (rows, columns) from their first pixel to their second, and the rows of the rest,
        the shortest first: (length, row from the disk's top, first column from its middle).
    """
    y, x = np.indices((2 * (radius + LONGEST) + 1,) * 2) - radius - LONGEST
    rest, pairs = x * x + y * y <= radius * radius, []
    for down, right in product(range(LONGEST, 0, -1), range(-LONGEST, LONGEST + 1)):
        both = rest & np.roll(rest, (-down, -right), (0, 1))
        while np.array_equal(rest, both | np.roll(both, (down, right), (0, 1))):
            pairs.append((down, right))
            rest, both = both, both & np.roll(both, (-down, -right), (0, 1))
    rows = (
        (int(line.sum()), row - LONGEST, int(line.argmax()) - radius - LONGEST)
        for row, line in enumerate(rest)
        if line.any()
    )
    return pairs, sorted(rows)


def _fold(first: BoolArray, second: BoolArray, gap: int) -> Strips:
    """Return two images as `Strips` of at least `gap` rows, still without the gap of columns."""
    rows, columns = first.shape
    height = max(math.ceil(rows / STRIPS), gap)
    pixels = np.empty((STRIPS * height, columns), dtype=np.uint8)
    pixels[rows:] = 0
    # numpy multiplies bytes seven times as fast as it shifts them to the left
    np.multiply(second.view(np.uint8), 2, out=pixels[:rows])
    pixels[:rows] |= first.view(np.uint8)
    pixels[: 2 * height] |= pixels[2 * height :] * 16
    pixels[:height] |= pixels[height : 2 * height] * 4
    return pixels[:height]


def _widen(folded: Strips, gap: int) -> Strips:
    """Add at least `gap` empty columns, to a multiple of the 8 bytes of a word."""
    height, columns = folded.shape
    strips = np.zeros((height, math.ceil((columns + gap) / 8) * 8), dtype=np.uint8)
    strips[:, :columns] = folded
    return strips

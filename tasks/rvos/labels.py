"""Annotations as images of object numbers: a PNG a frame, whose value is the object's id."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.layout.mask_image import read_mask_image
from harness.masks import Rle

VOID = 255
"""The value of pixels that do not count, in DAVIS."""

BACKGROUND = 0

Labels = NDArray[np.uint8]
"""Height × width: the number of the object that has the pixel."""


def read_labels(path: Path, *, what: str = "annotation") -> Labels:
    """Return the values of a palette or grey PNG: the indices in the file, not their colours.

    Of an image of colours whose channels are equal, the values of one.

    Args:
        path: The file.
        what: What it is, for messages.

    Raises:
        DataError: it is missing, damaged, or an image of colours.
    """
    values, mode = read_mask_image(path, f"{what} {path}")
    if mode not in ("P", "L", "1"):
        raise DataError(
            f"{what} {path}",
            expected="a palette, or grey values of 8 bits",
            found=f"an image of mode {mode}",
            fix="Its values are the objects' numbers: write it without converting colours.",
        )
    return values.astype(np.uint8)


def sized_labels(path: Path, size: tuple[int, int], *, what: str = "annotation") -> Labels:
    """The values of an annotation of (width, height); a DataError if it has another size."""
    labels = read_labels(path, what=what)
    height, width = labels.shape
    if (width, height) != size:
        raise DataError(
            f"{what} {path}",
            found=f"{width} × {height}",
            expected=f"{size[0]} × {size[1]} pixels, as the image has",
        )
    return labels


def label_tracks(
    paths: Sequence[Path], *, size: tuple[int, int], known: Collection[int] | None = None
) -> dict[int, tuple[Rle, ...]]:
    """Return the masks of each object, one for each frame, by number; empty where a frame lacks it.

    Args:
        paths: The annotation of each frame.
        size: (width, height) that all must have.
        known: The objects' numbers, all of which are returned. None takes every number that
            occurs, `VOID` as well.

    Raises:
        DataError: a file is missing, damaged, of another size, or holds a number that is not known.
    """
    width, height = size
    tracks: dict[int, list[Rle]] = {}
    for number in known or ():
        tracks[number] = [Rle.empty(height, width)] * len(paths)
    for index, path in enumerate(paths):
        labels = sized_labels(path, size)
        there = np.flatnonzero(np.bincount(labels.ravel(), minlength=VOID + 1)).tolist()
        for number in set(there) - {BACKGROUND}:
            if known is not None and number not in tracks:
                raise _unknown_label(path, number, known)
            track = tracks.setdefault(number, [Rle.empty(height, width)] * len(paths))
            track[index] = Rle.from_array(labels == number)
    return {number: tuple(tracks[number]) for number in sorted(tracks)}


def _unknown_label(path: Path, number: int, known: Collection[int]) -> DataError:
    objects = ", ".join(map(str, sorted(known))) or "none"
    return DataError(
        f"annotation {path}",
        expected=f"values 0 and those of the video's objects ({objects})",
        found=str(number),
    )

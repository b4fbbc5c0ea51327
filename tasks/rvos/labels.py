"""Read annotations that are one PNG per frame, in which a pixel's value is its object's number."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.layout.mask_image import read_mask_image
from harness.masks import Rle

VOID = 255
"""Value of pixels that DAVIS ignores."""

BACKGROUND = 0

Labels = NDArray[np.uint8]
"""height × width: the number of the object at each pixel, 0 for the background."""


def read_labels(path: Path, *, what: str = "annotation") -> Labels:
    """Return the values of a palette or grey PNG: the palette's indices, not its colours.

    A colour image with three equal channels is read as grey.

    Args:
        path: The file.
        what: Name of the kind of file in messages.

    Raises:
        DataError: the file is missing, damaged, or a colour image.
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
    """Return the values of an annotation; raise DataError unless its (width, height) is `size`."""
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
    """Return each object's masks, one per frame, by number; a mask is empty without the object.

    Args:
        paths: The annotation of each frame.
        size: (width, height) of every annotation.
        known: The numbers of the objects to return. None returns every number that occurs,
            including `VOID`.

    Raises:
        DataError: a file is missing, damaged, of another size, or has a number not in `known`.
    """
    width, height = size
    tracks: dict[int, list[Rle]] = {}
    for number in known or ():
        tracks[number] = [Rle.empty(height, width)] * len(paths)
    for index, path in enumerate(paths):
        labels = sized_labels(path, size)
        numbers = np.flatnonzero(np.bincount(labels.ravel(), minlength=VOID + 1)).tolist()
        for number in set(numbers) - {BACKGROUND}:
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

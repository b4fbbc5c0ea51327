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


def read_labels(path: Path, *, file_kind: str = "annotation") -> Labels:
    """Return the pixel values of a palette PNG (indices, not colours) or a grey PNG.

    A colour image with three equal channels is read as grey.

    Args:
        path: The file.
        file_kind: Word for the file in messages, such as "annotation".

    Raises:
        DataError: the file is missing, damaged, or a colour image.
    """
    values, mode = read_mask_image(path, f"{file_kind} {path}")
    if mode not in ("P", "L", "1"):
        raise DataError(
            f"{file_kind} {path}",
            expected="a palette, or grey values of 8 bits",
            found=f"an image of mode {mode}",
            fix="Its values are the objects' numbers: write it without converting colours.",
        )
    return values.astype(np.uint8)


def sized_labels(path: Path, size: tuple[int, int], *, file_kind: str = "annotation") -> Labels:
    """Return the values of an annotation; raise DataError unless its (width, height) is `size`."""
    labels = read_labels(path, file_kind=file_kind)
    height, width = labels.shape
    if (width, height) != size:
        raise DataError(
            f"{file_kind} {path}",
            found=f"{width} × {height}",
            expected=f"{size[0]} × {size[1]} pixels, as the image has",
        )
    return labels


def label_tracks(
    paths: Sequence[Path], *, size: tuple[int, int], known_numbers: Collection[int] | None = None
) -> dict[int, tuple[Rle, ...]]:
    """Return {object's number: masks, one per frame}; masks are empty where the object is absent.

    Args:
        paths: The annotation of each frame.
        size: (width, height) of every annotation.
        known_numbers: The numbers of the objects to return. None returns every number that occurs,
            including `VOID`.

    Raises:
        DataError: a file is missing, damaged, of another size, or has an unknown number.
    """
    width, height = size
    tracks: dict[int, list[Rle]] = {}
    for number in known_numbers or ():
        tracks[number] = [Rle.empty(height, width)] * len(paths)
    for index, path in enumerate(paths):
        labels = sized_labels(path, size)
        numbers = np.flatnonzero(np.bincount(labels.ravel(), minlength=VOID + 1)).tolist()
        for number in set(numbers) - {BACKGROUND}:
            if known_numbers is not None and number not in tracks:
                raise _unknown_label(path, number, known_numbers)
            track = tracks.setdefault(number, [Rle.empty(height, width)] * len(paths))
            track[index] = Rle.from_array(labels == number)
    return {number: tuple(tracks[number]) for number in sorted(tracks)}


def _unknown_label(path: Path, number: int, known_numbers: Collection[int]) -> DataError:
    """Return the error of a pixel value that belongs to none of the video's objects."""
    objects = ", ".join(map(str, sorted(known_numbers))) or "none"
    return DataError(
        f"annotation {path}",
        expected=f"values 0 and those of the video's objects ({objects})",
        found=str(number),
    )

"""Frames of a clip that is a folder of images, ordered by the number in their names.

Sorted as texts, FFmpeg's `frame_1.jpg` … `frame_12.jpg` would show frame 10 after frame 1. Tasks
and readers of private data call `frames_in`; names without a clear order are a MediaError.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from harness.errors import MediaError
from harness.foreign import listed

SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm"}
)
"""Suffixes of frames, in lower case."""
NUMBER = re.compile("([0-9]+)")  # splits shot2_frame07 into "shot", "2", "_frame", "07", ""
RENAMING_HINT = "Name the frames by one number, such as 00000.jpg, 00001.jpg, …"


def frames_in(folder: Path) -> list[Path]:
    """Return the frames of a clip's folder in order, without leftovers of other programs.

    Raises:
        MediaError: there is no image, or their names do not say in which order they are.
    """
    images = [path for path in listed(folder) if path.suffix.lower() in SUFFIXES]
    if not images:
        raise MediaError(f"folder {folder}", expected="images, one a frame", found="none")
    return in_order(images, f"frames in {folder}")


def in_order(paths: Iterable[Path], what: str) -> list[Path]:
    """Return frames in the order of the number in their names.

    All names are alike but for that number, which is padded with zeros to one length in all of them
    or in none. Where several numbers differ (`shot1_frame2`), sorting the names as texts must give
    the same order.

    Args:
        paths: The images' files. Folders and suffixes do not count.
        what: Name of the frames in messages.

    Raises:
        MediaError: a name has no number, or is unlike the others, or two have one number. A single
            frame needs none.

    >>> names = ("frame_10.jpg", "frame_9.jpg", "frame_1.jpg")
    >>> [path.name for path in in_order(map(Path, names), "frames")]
    ['frame_1.jpg', 'frame_9.jpg', 'frame_10.jpg']
    """
    by_name = sorted(paths, key=lambda path: path.name)
    if len(by_name) < 2:
        return by_name
    parts = [NUMBER.split(path.stem) for path in by_name]
    words = [name_parts[::2] for name_parts in parts]
    numbers = [name_parts[1::2] for name_parts in parts]
    for path, its_words in zip(by_name[1:], words[1:], strict=True):
        if not numbers[0] or its_words != words[0]:
            raise _no_order(what, "names that differ only in a number", by_name[0], path)
    columns = zip(*numbers, strict=True)  # the first number of every name, then the second, …
    differing = [column for column in columns if len(set(column)) > 1]
    for column in differing:
        _check_padding(dict(zip(by_name, column, strict=True)), what)
    keys = {path: [int(column[row]) for column in differing] for row, path in enumerate(by_name)}
    ordered = sorted(by_name, key=keys.__getitem__)
    for path, following in pairwise(ordered):
        if keys[path] == keys[following]:
            raise _no_order(what, "one file a number", path, following)
    if len(differing) > 1 and ordered != by_name:
        raise _no_order(what, "names of which one number differs", ordered[0], ordered[-1])
    return ordered


def _check_padding(texts: Mapping[Path, str], what: str) -> None:
    """Raise MediaError unless all numbers are padded with zeros to one length, or none is.

    `texts` holds the digits of each file's number.
    """
    padded = {path: text for path, text in texts.items() if text[0] == "0" and len(text) > 1}
    if not padded:
        return
    shortest = min(padded, key=lambda path: len(padded[path]))
    width = len(padded[shortest])
    for path, text in texts.items():
        if len(text) < width or (path in padded and len(text) > width):
            raise _no_order(
                what,
                "numbers with the same number of digits, or without leading zeros",
                shortest,
                path,
            )


def _no_order(what: str, expected: str, first: Path, second: Path) -> MediaError:
    return MediaError(
        what, expected=expected, found=f"{first.name} and {second.name}", fix=RENAMING_HINT
    )

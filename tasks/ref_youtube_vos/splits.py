"""Which videos belong to a split: the organisers' valid without test, and parts of train.

The organisers keep the truth of all but `train`. To score at home, `train` is cut in two by the
videos' names, so that a part of the download is cut alike.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from harness.errors import DataError

Split: TypeAlias = Literal["train", "train_fit", "train_dev", "valid"]

HELD_OUT = 26  # of 256 first bytes: one video in ten
VALID = 202
"""Videos of the real `valid`: those of its file that the file of `test` does not have."""


def held_out(video: str) -> bool:
    """Whether a video of `train` is in `train_dev`: its name's SHA-256 begins with a byte below 26.

    >>> [held_out(name) for name in ("003234408d", "0043f083b5", "00f88c4f0a")]
    [True, False, False]
    """
    return hashlib.sha256(video.encode()).digest()[0] < HELD_OUT


def chosen(
    split: Split, videos: Mapping[str, Any], test: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """The videos of a split, in the order of the file.

    Args:
        split: Which.
        videos: The entries of `train` or of `valid`.
        test: Those of `test`, which the file of `valid` holds as well.
        where: The file, for messages.

    Raises:
        DataError: `valid` is the organisers' (202 videos or more), and not 202 remain.
    """
    if split == "train_fit":
        return {name: video for name, video in videos.items() if not held_out(name)}
    if split == "train_dev":
        return {name: video for name, video in videos.items() if held_out(name)}
    if split == "train":
        return dict(videos)
    kept = {name: video for name, video in videos.items() if name not in test}
    if len(videos) >= VALID and len(kept) != VALID:
        raise DataError(
            where, expected=f"{VALID} videos beside those of test",
            found=f"{len(kept)} of {len(videos)}",
            fix="The file of valid has 507 videos, that of test 305 of them: "
            "meta_expressions/test/meta_expressions.json has to be there.",
        )  # fmt: skip
    return kept

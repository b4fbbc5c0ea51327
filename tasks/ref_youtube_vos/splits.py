"""Videos of each split: the organisers' valid without test, and parts of train.

The organisers keep the ground truth of all but `train`. To score at home, `train` is cut in two by
the videos' names, so that a part of the download is cut alike.
"""

import hashlib
from collections.abc import Callable, ItemsView, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.errors import DataError

Split: TypeAlias = Literal["train", "train_fit", "train_dev", "valid"]

HELD_OUT = 26  # of 256 first bytes: one video in ten
VALID = 202
"""Videos of the real `valid`: those of its file that the file of `test` does not have."""


def held_out(video: str) -> bool:
    """Return True if a video of `train` is in `train_dev`: its name's SHA-256 starts with a byte <
    26.

    >>> [held_out(name) for name in ("003234408d", "0043f083b5", "00f88c4f0a")]
    [True, False, False]
    """
    return hashlib.sha256(video.encode()).digest()[0] < HELD_OUT


@dataclass(frozen=True, slots=True, eq=False)
class MappingSubset(Mapping[str, object]):
    """Some entries of a mapping, read through it."""

    whole: Mapping[str, object]
    kept: Callable[[str], bool]
    """Function that returns True if the entry of a key belongs to the part."""

    def __getitem__(self, key: str) -> object:
        if not self.kept(key):
            raise KeyError(key)
        return self.whole[key]

    def __iter__(self) -> Iterator[str]:
        return filter(self.kept, self.whole)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def items(self) -> ItemsView[str, object]:
        """Keys and values in one pass over the whole."""
        return _PartOfItems(self)


class _PartOfItems(ItemsView[str, object]):
    _mapping: MappingSubset

    def __iter__(self) -> Iterator[tuple[str, object]]:
        return (pair for pair in self._mapping.whole.items() if self._mapping.kept(pair[0]))


def choose_videos(
    split: Split,
    videos: Mapping[str, object],
    test: Mapping[str, object],
    where: str,
    *,
    generated: bool = False,
) -> Mapping[str, object]:
    """The videos of a split, in the order of the file.

    Args:
        split: Which.
        videos: The entries of `train` or of `valid`.
        test: Those of `test`, which the file of `valid` holds as well.
        where: The file, for messages.
        generated: Whether `harness data make` wrote it, whose `valid` has as many as were asked.

    Raises:
        DataError: not exactly 202 videos of `valid` remain: the server takes nothing else.
    """
    if split == "train_fit":
        return MappingSubset(videos, lambda name: not held_out(name))
    if split == "train_dev":
        return MappingSubset(videos, held_out)
    if split == "train":
        return videos
    tested = frozenset(test)
    kept = MappingSubset(videos, lambda name: name not in tested)
    if not generated and (number := len(kept)) != VALID:
        raise DataError(
            where,
            expected=f"{VALID} videos beside those of test",
            found=f"{number} of {len(videos)}",
            fix="The file of valid has 507 videos, that of test 305 of them: "
            "meta_expressions/test/meta_expressions.json has to be there.",
        )
    return kept

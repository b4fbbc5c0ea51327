"""Choose the videos of each split of Ref-YouTube-VOS.

Only `train` has public ground truth. For scoring without the server, it is divided into `train_fit`
and `train_dev` by a hash of the videos' names, so that a partial download is divided in the same
way. `valid` has the videos of the organisers' file for valid that are not in the file for test.
"""

import hashlib
from collections.abc import Callable, ItemsView, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.errors import DataError

Split: TypeAlias = Literal["train", "train_fit", "train_dev", "valid"]

HELD_OUT_BYTES = 26  # of 256 possible first bytes: one video in ten
N_VALID = 202
"""Number of videos of the real `valid`: those of its file that the file of `test` does not have."""


def held_out(video: str) -> bool:
    """Return True if a video of `train` is in `train_dev`, by the first byte of its name's SHA-256.

    >>> [held_out(name) for name in ("003234408d", "0043f083b5", "00f88c4f0a")]
    [True, False, False]
    """
    return hashlib.sha256(video.encode()).digest()[0] < HELD_OUT_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class MappingSubset(Mapping[str, object]):
    """View of the entries of a mapping whose keys fulfil a condition; nothing is copied.

    The mapping may be a large file's index, so `items` reads it in one pass.
    """

    whole: Mapping[str, object]
    includes: Callable[[str], bool]
    """Returns True if the entry of a key belongs to the subset."""

    def __getitem__(self, key: str) -> object:
        if not self.includes(key):
            raise KeyError(key)
        return self.whole[key]

    def __iter__(self) -> Iterator[str]:
        return filter(self.includes, self.whole)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def items(self) -> ItemsView[str, object]:
        """Return keys and values, which are read in one pass over `whole`."""
        return _SubsetItems(self)


class _SubsetItems(ItemsView[str, object]):
    """Items of a `MappingSubset`; without it, `ItemsView` would look up each key singly."""

    _mapping: MappingSubset

    def __iter__(self) -> Iterator[tuple[str, object]]:
        return (pair for pair in self._mapping.whole.items() if self._mapping.includes(pair[0]))


def choose_videos(
    split: Split,
    videos: Mapping[str, object],
    test: Mapping[str, object],
    where: str,
    *,
    generated: bool = False,
) -> Mapping[str, object]:
    """Return the videos of a split, in the order of the file.

    Args:
        split: Name of the split.
        videos: Entries of the file of `train` or of `valid`.
        test: Entries of the file of `test`, which are also in that of `valid`.
        where: Name of the file, for messages.
        generated: True if `harness data make` wrote the file: its `valid` has any number of videos.

    Raises:
        DataError: `valid` does not have exactly N_VALID videos, as the server requires.
    """
    if split == "train_fit":
        return MappingSubset(videos, lambda name: not held_out(name))
    if split == "train_dev":
        return MappingSubset(videos, held_out)
    if split == "train":
        return videos
    in_test = frozenset(test)
    valid = MappingSubset(videos, lambda name: name not in in_test)
    if not generated and (number := len(valid)) != N_VALID:
        raise DataError(
            where,
            expected=f"{N_VALID} videos beside those of test",
            found=f"{number} of {len(videos)}",
            fix="The file of valid has 507 videos, that of test 305 of them: "
            "meta_expressions/test/meta_expressions.json has to be there.",
        )
    return valid

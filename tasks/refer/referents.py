"""Reader of referents (objects with their expressions), for RefCOCO's family and gRefCOCO.

The files are `refs(….).p` (RefCOCO, RefCOCO+, RefCOCOg) and `grefs(….).json`. An entry:

    {"ref_id": 1, "ann_id": 1719310, "category_id": 1, "image_id": 581857, "split": "val",
     "file_name": "COCO_train2014_000000581857_1.jpg", "sent_ids": [3, 4],
     "sentences": [{"sent_id": 3, "sent": "lady in black", "raw": "lady in black", "tokens": […]}]}

The official files of RefCOCO are pickles of Python 2. A JSON file with the same stem and content
is read as well. In gRefCOCO `ann_id` is a list, and [-1] means that there is no target. `file_name`
contains the object's id and is not the name of a file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.errors import DataError
from harness.layout import JsonFile, field
from harness.tasks.refer.annotations import Instances
from harness.tasks.refer.plain_pickle import read_plain_pickle

NO_OBJECT_ID = -1
"""The `ann_id` of an expression without a target."""
BLOCK = 1024  # ids per block of `_SeenNumbers`
IMAGE_FOLDERS = ("images/mscoco/images/train2014", "images/train2014")
"""Folders of images below the data root: that of LISA and refer, and that of gRefCOCO."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One expression."""

    id: int
    text: str
    raw: str | None = None
    """Text as the annotator typed it; None if the file does not have it."""


@dataclass(frozen=True, slots=True)
class Referent:
    """The objects of an image that the same expressions refer to."""

    id: int
    image_id: int
    things: tuple[int, ...]
    """Ids of the objects; empty if the expressions refer to no object."""
    split: str
    sentences: tuple[Sentence, ...]
    where: str


@dataclass(frozen=True)
class Listing:
    """The files of one benchmark in refer's layout.

    A JSON file is read again in each pass. A pickle is loaded once and kept in memory.
    """

    root: Path
    """The folder that holds the images and one folder per benchmark."""
    path: Path
    """The file of referents."""
    fix: str = ""
    """Remedy in error messages."""

    @cached_property
    def instances(self) -> Instances:
        """The `instances.json` beside the file of referents."""
        return Instances(self.path.parent / "instances.json")

    @cached_property
    def images(self) -> Path:
        """The first of IMAGE_FOLDERS that exists; the first of all if none exists."""
        folders = [self.root / folder for folder in IMAGE_FOLDERS]
        return next((folder for folder in folders if folder.is_dir()), folders[0])

    def referents_of(self, split: str, *, exact: bool = False) -> Iterator[Referent]:
        """Yield the referents of a split in the order of the file; check those of all splits.

        Args:
            split: Name of the split.
            exact: Yield only referents whose field equals `split`; otherwise see `in_split`.

        Raises:
            DataError: the file is damaged, a field is missing or of another type, an id occurs
                twice, or the split has no referents.
        """
        splits: set[str] = set()
        has_match = False
        for referent in self._iter_checked():
            splits.add(referent.split)
            if referent.split == split if exact else in_split(referent.split, split):
                has_match = True
                yield referent
        if not has_match:
            names = ", ".join(sorted(splits))[:80]
            raise DataError(
                f"file {self.path}",
                expected=f"something of split {split}",
                found=f"only {names}" if names else "nothing",
                fix=self.fix,
            )

    def _iter_checked(self) -> Iterator[Referent]:
        """Yield every referent; raise DataError if the id of a referent or a sentence repeats."""
        referents, sentences = _SeenNumbers("ref_id"), _SeenNumbers("sent_id")
        is_pickle = self.path.suffix == ".p"
        for referent in self._all_referents if is_pickle else self._streamed():
            referents.add(referent.id, referent.where)
            for sentence in referent.sentences:
                sentences.add(sentence.id, referent.where)
            yield referent

    def _streamed(self) -> Iterator[Referent]:
        """Yield the referents of a JSON file, one at a time."""
        for entry in JsonFile(self.path).items():
            yield read_referent(entry.parse(), f"{self.path}, entry {entry.key}")

    @cached_property
    def _all_referents(self) -> tuple[Referent, ...]:
        """The referents of a pickle, which can only be read whole."""
        plain = read_plain_pickle(self.path)
        if not isinstance(plain, list):
            raise DataError(f"file {self.path}", expected="a list", found=type(plain).__name__)
        return tuple(
            read_referent(entry, f"{self.path}, entry {n}") for n, entry in enumerate(plain)
        )


class _SeenNumbers:
    """Set of ids that must be unique; consecutive ids take one bit each."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._blocks: dict[int, int] = {}  # block number → bit k is set for id block * BLOCK + k

    def add(self, number: int, where: str) -> None:
        """Add an id; raise DataError if it was added before."""
        block, bit = number // BLOCK, 1 << (number % BLOCK)
        bits = self._blocks.get(block, 0)
        if bits & bit:
            raise DataError(
                f"{where}: {self.key!r} {number}", expected="each once", found="it a second time"
            )
        self._blocks[block] = bits | bit


def find_referents(folder: Path, stem: str, *, fix: str) -> Path:
    """Return the file of referents, `stem.p` or else `stem.json`, as gRefCOCO's reader does."""
    for path in (folder / f"{stem}.p", folder / f"{stem}.json"):
        if path.is_file():
            return path
    raise DataError(
        f"folder {folder}",
        expected=f"{stem}.p or {stem}.json",
        found="neither" if folder.is_dir() else "no such folder",
        fix=fix,
    )


def in_split(referent_split: str, split: str) -> bool:
    """Return True if a referent whose field is `referent_split` belongs to `split`, as in refer.py.

    The field may contain several letters (`testAB`), and `test` matches every test split.

    >>> [in_split(own, "testA") for own in ("testA", "testAB", "testB", "val")]
    [True, True, False, False]
    >>> in_split("testA", "test"), in_split("val", "val")
    (True, True)
    """
    if split in ("testA", "testB", "testC"):
        return split[-1] in referent_split
    return split in referent_split if split == "test" else referent_split == split


def read_referent(plain: object, where: str) -> Referent:
    """Check one entry of the file, and return its referent.

    Raises:
        DataError: a field is missing, of another type, or invalid.
    """
    numbers = field(plain, "ann_id", (int, list), where)
    things = tuple(numbers) if isinstance(numbers, list) else (numbers,)
    if not things or not all(type(number) is int for number in things):
        raise DataError(
            f"{where}: 'ann_id'", expected="one number or several", found=repr(numbers)[:60]
        )
    if (NO_OBJECT_ID in things and len(things) > 1) or len(set(things)) < len(things):
        raise DataError(
            f"{where}: 'ann_id'",
            expected="each object once, or only [-1]",
            found=repr(numbers)[:60],
        )
    sentences = [
        _sentence(entry, f"{where}, sentence {n}")
        for n, entry in enumerate(field(plain, "sentences", list, where))
    ]
    if not sentences:
        raise DataError(f"{where}: 'sentences'", expected="at least one", found="none")
    return Referent(
        id=field(plain, "ref_id", int, where),
        image_id=field(plain, "image_id", int, where),
        things=() if things == (NO_OBJECT_ID,) else things,
        split=field(plain, "split", str, where),
        sentences=tuple(sentences),
        where=where,
    )


def _sentence(entry: object, where: str) -> Sentence:
    """Check the entry of one expression."""
    has_raw = isinstance(entry, Mapping) and "raw" in entry
    return Sentence(
        id=field(entry, "sent_id", int, where),
        text=field(entry, "sent", str, where),
        raw=field(entry, "raw", str, where) if has_raw else None,
    )

"""Files of referents: `refs(unc).p` and its like, and gRefCOCO's `grefs`.

    {"ref_id": 1, "ann_id": 1719310, "category_id": 1, "image_id": 581857, "split": "val",
     "file_name": "COCO_train2014_000000581857_1.jpg", "sent_ids": [3, 4],
     "sentences": [{"sent_id": 3, "sent": "lady in black", "raw": "lady in black", "tokens": […]}]}

The official files of RefCOCO are pickles of Python 2; a JSON file of the same name and content is
read as well, as gRefCOCO has it. In gRefCOCO `ann_id` is a list, and [-1] means that there is no
target. `file_name` carries the object's number and names no file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.errors import DataError
from harness.layout import JsonFile, field
from harness.tasks.refer.annotations import Instances
from harness.tasks.refer.plain_pickle import read_plain_pickle

NOTHING = -1
"""Number of an object in place of "no object"."""
BLOCK = 1024  # numbers
IMAGES = ("images/mscoco/images/train2014", "images/train2014")
"""Folders of images below the data root: as in LISA and refer, and as in gRefCOCO."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One expression."""

    id: int
    text: str
    raw: str | None = None
    """Text as the annotator typed it, where the file has that."""


@dataclass(frozen=True, slots=True)
class Referent:
    """Objects of an image that one or several expressions refer to."""

    id: int
    image_id: int
    things: tuple[int, ...]
    """Numbers of the objects; none for expressions without a referent."""
    split: str
    sentences: tuple[Sentence, ...]
    where: str


@dataclass(frozen=True)
class Listing:
    """Files of one benchmark. JSON is read again in each pass; a pickle is loaded once and kept."""

    root: Path
    """The folder that holds `images` and one folder a benchmark."""
    path: Path
    """The file of referents."""
    fix: str = ""
    """Remedy in error messages."""

    @cached_property
    def instances(self) -> Instances:
        """Objects and images beside it."""
        return Instances(self.path.parent / "instances.json")

    @cached_property
    def images(self) -> Path:
        """Folder of the images; the first of the known ones if none exists yet."""
        places = [self.root / place for place in IMAGES]
        return next((place for place in places if place.is_dir()), places[0])

    def referents_of(self, split: str, *, exact: bool = False) -> Iterator[Referent]:
        """The referents of a split in the order of the file; all are checked on the way.

        Args:
            split: Which.
            exact: Only those whose field says just that.

        Raises:
            DataError: the file is damaged, a field is missing or of another type, or a number
                occurs twice; or, at the end, there was none.
        """
        there: set[str] = set()
        is_there = False
        for referent in self._iter_checked():
            there.add(referent.split)
            if referent.split == split if exact else in_split(referent.split, split):
                is_there = True
                yield referent
        if not is_there:
            names = ", ".join(sorted(there))[:80]
            raise DataError(
                f"file {self.path}",
                expected=f"something of split {split}",
                found=f"only {names}" if names else "nothing",
                fix=self.fix,
            )

    def _iter_checked(self) -> Iterator[Referent]:
        referents, sentences = _SeenNumbers("ref_id"), _SeenNumbers("sent_id")
        for referent in self._all_referents if self.path.suffix == ".p" else self._streamed():
            referents.add(referent.id, referent.where)
            for sentence in referent.sentences:
                sentences.add(sentence.id, referent.where)
            yield referent

    def _streamed(self) -> Iterator[Referent]:
        for entry in JsonFile(self.path).items():
            yield read_referent(entry.parse(), f"{self.path}, entry {entry.key}")

    @cached_property
    def _all_referents(self) -> tuple[Referent, ...]:
        plain = read_plain_pickle(self.path)
        if not isinstance(plain, list):
            raise DataError(f"file {self.path}", expected="a list", found=type(plain).__name__)
        return tuple(
            read_referent(entry, f"{self.path}, entry {n}") for n, entry in enumerate(plain)
        )


class _SeenNumbers:
    """Set of numbers that may each occur once; one bit each where they are close together."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._blocks: dict[int, int] = {}

    def add(self, number: int, where: str) -> None:
        """Take note of a number; a DataError if it has occurred before."""
        block, bit = number // BLOCK, 1 << (number % BLOCK)
        held = self._blocks.get(block, 0)
        if held & bit:
            raise DataError(
                f"{where}: {self.key!r} {number}", expected="each once", found="it a second time"
            )
        self._blocks[block] = held | bit


def find_referents(folder: Path, stem: str, *, fix: str) -> Path:
    """The file of referents: `stem.p`, or else `stem.json`, as gRefCOCO's own reader looks."""
    for path in (folder / f"{stem}.p", folder / f"{stem}.json"):
        if path.is_file():
            return path
    raise DataError(
        f"folder {folder}",
        expected=f"{stem}.p or {stem}.json",
        found="neither" if folder.is_dir() else "no such folder",
        fix=fix,
    )


def in_split(own: str, split: str) -> bool:
    """Return True if a referent with the field `own` belongs to `split`, by refer.py's rule.

    A letter may stand among others (`testAB`), and `test` is any test split.

    >>> [in_split(own, "testA") for own in ("testA", "testAB", "testB", "val")]
    [True, True, False, False]
    >>> in_split("testA", "test"), in_split("val", "val")
    (True, True)
    """
    if split in ("testA", "testB", "testC"):
        return split[-1] in own
    return split in own if split == "test" else own == split


def read_referent(plain: object, where: str) -> Referent:
    """Check one entry.

    Raises:
        DataError: a field is missing or of another type.
    """
    numbers = field(plain, "ann_id", (int, list), where)
    things = tuple(numbers) if isinstance(numbers, list) else (numbers,)
    if not things or not all(type(number) is int for number in things):
        raise DataError(
            f"{where}: 'ann_id'", expected="one number or several", found=repr(numbers)[:60]
        )
    if (NOTHING in things and len(things) > 1) or len(set(things)) < len(things):
        raise DataError(
            f"{where}: 'ann_id'",
            expected="each object once, or only [-1]",
            found=repr(numbers)[:60],
        )
    sentence = [
        Sentence(
            id=field(entry, "sent_id", int, place),
            text=field(entry, "sent", str, place),
            raw=field(entry, "raw", str, place) if "raw" in entry else None,
        )
        for place, entry in (
            (f"{where}, sentence {n}", entry)
            for n, entry in enumerate(field(plain, "sentences", list, where))
        )
    ]
    if not sentence:
        raise DataError(f"{where}: 'sentences'", expected="at least one", found="none")
    return Referent(
        id=field(plain, "ref_id", int, where),
        image_id=field(plain, "image_id", int, where),
        things=() if things == (NOTHING,) else things,
        split=field(plain, "split", str, where),
        sentences=tuple(sentence),
        where=where,
    )

"""A large JSON file as a mapping: an index holds each entry's place, and access reads the entry.

Tasks with annotations too large for memory look up entries by key, as those of one image. The index
takes 28 bytes for each entry.
"""

import hashlib
from array import array
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.layout.files import field
from harness.layout.json_file import Entry, JsonFile
from harness.layout.json_scanner import ByteSpan


@dataclass(frozen=True, slots=True)
class _ByteSpans:
    """Ranges of bytes of the entries, sorted by the hash of the key; arrays of one length."""

    digests: NDArray[np.uint64]
    """Hashes of the keys, in ascending order."""
    order: NDArray[np.int32]
    """Number of each digest's entry in the file, from 0."""
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def spans_of(self, key: str) -> Iterator[tuple[int, ByteSpan]]:
        """Yield (number, range of bytes) of each entry with the key's hash: nearly always one."""
        first = int(np.searchsorted(self.digests, np.uint64(_digest(key))))
        for row in range(first, len(self.digests)):
            if int(self.digests[row]) != _digest(key):
                return
            yield (
                int(self.order[row]),
                ByteSpan(int(self.starts[row]), int(self.ends[row])),
            )


def _digest(key: str) -> int:
    """Return a hash of 64 bits, which the index stores in place of the key."""
    raw = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "little")


class JsonIndex(Mapping[str, Any]):
    """An object of a JSON file as a mapping, or a list of objects keyed by one of their fields.

    The constructor reads nothing. The first look-up walks through the file once and keeps the place
    of each entry, not its content; each look-up reads one entry. `items()` reads the file in its
    order, without the index.

    Args:
        file: The list or object.
        by: For a list: the field whose whole number, as text, is an entry's key.
    """

    def __init__(self, file: JsonFile, *, by: str = "") -> None:
        self.file = file
        self.by = by
        self._places: _ByteSpans | DataError | None = None

    def __getitem__(self, key: str) -> object:
        for number, span in self._index().spans_of(key):
            entry = self._entry(key, number, span)
            stored_key, value = self._pair(entry)
            if stored_key == key:
                return value
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        # `self` is a default that no entry equals, as None may be an entry's value.
        return isinstance(key, str) and self.get(key, self) is not self

    def __iter__(self) -> Iterator[str]:
        if self.by:
            return (key for key, _ in self._stream())
        return (key for key, _ in self.file.members())

    def __len__(self) -> int:
        return len(self._index().digests)

    def items(self) -> ItemsView[str, Any]:
        """Return keys and values, read from the beginning during the iteration."""
        return _StreamedItems(self)

    def walk(self) -> None:
        """Build the index now, if that was not done; raise DataError for faults of the file."""
        self._index()

    def _stream(self) -> Iterator[tuple[str, object]]:
        """Yield keys and values in the file's order; raise DataError if one cannot be decoded."""
        if self.by:
            return map(self._decode_entry, self.file.items())
        return ((str(entry.key), entry.parse()) for entry in self.file.entries())

    def _decode_entry(self, entry: Entry) -> tuple[str, object]:
        value = entry.parse()
        return str(field(value, self.by, int, f"{self._name}, entry {entry.key}")), value

    @property
    def _name(self) -> str:
        return f"{self.file.path}: {self.file.at[-1]!r}" if self.file.at else str(self.file.path)

    def _entry(self, key: str, number: int, span: ByteSpan) -> Entry:
        return Entry(self.file.path, number if self.by else key, self.file.read_text(span), span)

    def _pair(self, entry: Entry) -> tuple[str, object]:
        """Return the key and the value of an entry."""
        if self.by:
            return self._decode_entry(entry)
        # The range of bytes of an object's entry holds its key too: `"key": value`.
        pair = Entry(entry.path, entry.key, f"{{{entry.text}}}", entry.span).parse()
        ((key, value),) = pair.items()
        return key, value

    def _index(self) -> _ByteSpans:
        if self._places is None:
            try:
                self._places = self._build_index()
            except DataError as error:
                self._places = error  # a file that was cut is not walked through again
        if isinstance(self._places, DataError):
            raise self._places
        return self._places

    def _build_index(self) -> _ByteSpans:
        digests, starts, ends = array("Q"), array("q"), array("q")
        for key, span in self._keys():
            digests.append(_digest(key))
            starts.append(span.start)
            ends.append(span.end)
        keys = np.frombuffer(digests, np.uint64) if digests else np.empty(0, np.uint64)
        order = np.argsort(keys, kind="stable").astype(np.int32)
        places = _ByteSpans(
            keys[order], order, np.array(starts, np.int64)[order], np.array(ends, np.int64)[order]
        )
        self._refuse_duplicates(places)
        return places

    def _keys(self) -> Iterator[tuple[str, ByteSpan]]:
        if not self.by:
            return self.file.members()
        return ((self._decode_entry(entry)[0], entry.span) for entry in self.file.items())

    def _refuse_duplicates(self, places: _ByteSpans) -> None:
        """Raise DataError if two entries have the same key; the same hash alone is allowed.

        Only entries whose hash occurs twice are read again.
        """
        keys_of_digest: set[str] = set()
        last_digest = -1
        for row in np.flatnonzero(_is_repeated(places.digests)):
            if int(places.digests[row]) != last_digest:
                keys_of_digest, last_digest = set(), int(places.digests[row])
            number = int(places.order[row])
            span = ByteSpan(int(places.starts[row]), int(places.ends[row]))
            entry = self._entry("", number, span)  # the index does not keep keys
            key, _ = self._pair(entry)
            if key in keys_of_digest:
                raise self._duplicate_error(key, number)
            keys_of_digest.add(key)

    def _duplicate_error(self, key: str, number: int) -> DataError:
        if self.by:
            return DataError(
                f"{self._name}, entry {number}: {self.by!r} {key}",
                expected="each once",
                found="it a second time",
            )
        return DataError(
            f"file {self.file.path}",
            expected="complete JSON, each key once",
            found=f"the key {key[:60]!r} twice",
        )


def _is_repeated(digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return True for each of the ascending numbers that occurs more than once."""
    repeated = np.zeros(len(digests), np.bool_)
    same = digests[1:] == digests[:-1]
    repeated[:-1] |= same
    repeated[1:] |= same
    return repeated


class _StreamedItems(ItemsView[str, Any]):
    """Result of `JsonIndex.items()`, which iterates in one pass over the file."""

    _mapping: JsonIndex

    def __iter__(self) -> Iterator[tuple[str, object]]:
        return self._mapping._stream()

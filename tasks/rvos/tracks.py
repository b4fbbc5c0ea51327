"""Masks of objects by annotation id: one run-length a frame, or null where the object is not."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import DataError
from harness.layout import field
from harness.masks import Rle
from harness.replies import unique

CHUNK = 2**20  # bytes that are read at once
LONGEST = 2**28  # bytes of one entry


def object_track(
    masks: Mapping[str, Any], annotation: Any, *, size: tuple[int, int], frames: int, where: str
) -> list[Rle | None]:
    """One object's masks, checked; None for a frame that it is not in.

    Args:
        masks: A list of run-lengths by annotation id.
        annotation: The object's id, text or a whole number.
        size: (width, height) of the video's pictures.
        frames: How many there are.
        where: The file, and whose truth it is, for messages.

    Raises:
        DataError: there is none of this id, or its masks are not those of the video.
    """
    key = str(annotation)
    track = field({key: masks[key]} if key in masks else {}, key, list, where)
    if len(track) != frames:
        raise DataError(f"{where}: annotation {annotation}", found=f"{len(track)} masks",
                        expected=f"{frames}, one a frame")  # fmt: skip
    return [
        None if plain is None
        else sized(Rle.from_json(plain, what), size, what)
        for plain, what in _named(track, f"{where}: annotation {annotation}, frame")
    ]  # fmt: skip


def _named(items: Iterable[Any], what: str) -> Iterator[tuple[Any, str]]:
    return ((item, f"{what} {index}") for index, item in enumerate(items))


def sized(mask: Rle, size: tuple[int, int], where: str) -> Rle:
    """`mask` if it has the picture's (width, height); a DataError that names it if not."""
    if mask.size != size:
        raise DataError(where, expected=f"{size[0]} × {size[1]} pixels, as the picture has",
                        found=f"{mask.width} × {mask.height}")  # fmt: skip
    return mask


def united(
    tracks: Iterable[Sequence[Rle | None]], *, size: tuple[int, int], frames: int
) -> tuple[Rle, ...]:
    """The pixels of any of the objects in each frame; empty masks of no objects."""
    width, height = size
    whole = [Rle.empty(height, width)] * frames
    for track in tracks:
        for index, mask in enumerate(track):
            if mask is not None:
                whole[index] = mask if whole[index].area == 0 else whole[index].union(mask)
    return tuple(whole)


class Place(NamedTuple):
    """Where an entry lies in a file, in bytes."""

    start: int
    end: int


class TrackFile(Mapping[str, Any]):
    """The entries of a JSON file that holds one object, read one at a time.

    ReVOS' masks are some hundred megabytes. Opening looks at nothing; the first use walks through
    the file once and remembers where each entry lies, holding one entry at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, Place] | None = None

    def __getitem__(self, key: str) -> Any:
        place = self._index()[key]
        with self.path.open("rb") as file:
            file.seek(place.start)
            raw = file.read(place.end - place.start)
        try:
            return json.loads(raw.decode("utf-8"), object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            raise DataError(f"file {self.path}, entry {key!r}", expected="JSON",
                            found=str(error)) from error  # fmt: skip

    def __contains__(self, key: object) -> bool:
        return key in self._index()

    def __iter__(self) -> Iterator[str]:
        return iter(self._index())

    def __len__(self) -> int:
        return len(self._index())

    def _index(self) -> dict[str, Place]:
        if self._places is None:
            self._places = dict(self._entries())
        return self._places

    def _entries(self) -> Iterator[tuple[str, Place]]:
        """Each key and where its value lies.

        Bytes are taken for characters (latin-1), so that places in the text are places in the file;
        all that JSON is made of is ASCII. Keys and values are decoded as UTF-8 afterwards.

        Raises:
            DataError: the file is missing, cut off or no JSON object, or a key comes twice.
        """
        seen: set[str] = set()
        try:
            with self.path.open("rb") as file:
                for key, place in _Scanner(file).entries():
                    if key in seen:
                        raise ValueError(f"the key {key[:60]!r} comes twice")
                    seen.add(key)
                    yield key, place
        except OSError as error:
            raise DataError(f"file {self.path}", expected="a readable file",
                            found=error.strerror or str(error)) from error  # fmt: skip
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"file {self.path}", expected="complete JSON, one object", found=str(error),
                fix="It may have been cut while it was copied: fetch it again.",
            ) from error  # fmt: skip


class _Scanner:
    """Walks over the entries of one object; raises ValueError where there is no such thing."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._text = ""
        self._at = 0  # in the text
        self._before = 0  # bytes before the text
        self._decoder = json.JSONDecoder()

    def entries(self) -> Iterator[tuple[str, Place]]:
        self._more()
        if self._text.startswith("\xef\xbb\xbf"):  # a byte-order mark
            self._at = 3
        self._expect("{")
        if self._next() == "}":
            return self._finish()
        while True:
            raw, place = self._value()
            if not isinstance(raw, str):
                raise ValueError(f"{str(raw)[:40]!r} in the place of a key")
            key = self._key(place)
            self._expect(":")
            self._next()
            yield key, self._value()[1]
            if self._next() == "}":
                return self._finish()
            self._expect(",")
            self._next()

    def _key(self, place: Place) -> str:
        """The key that was read last, from its bytes."""
        raw = self._text[place.start - self._before : place.end - self._before]
        return str(json.loads(raw.encode("latin-1").decode("utf-8")))

    def _finish(self) -> None:
        self._expect("}")
        if left := self._next():
            raise ValueError(f"{left!r} after the end, at byte {self._before + self._at}")

    def _value(self) -> tuple[Any, Place]:
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # An entry that was cut by the chunk is read again with twice as much of the file.
                cut = error.msg.startswith("Unterminated") or error.pos + 8 > len(self._text)
                left = len(self._text) - self._at
                if not cut or left > LONGEST or not self._more(left):
                    raise ValueError(f"{error.msg} at byte {self._before + error.pos}") from error
                continue
            plain = not isinstance(value, (str, list, dict))
            if plain and len(self._text) - end < len("e+1") and self._more():
                continue  # a number may go on
            place = Place(self._before + self._at, self._before + end)
            self._at = end
            return value, place

    def _expect(self, mark: str) -> None:
        if self._next() != mark:
            raise ValueError(f"{self._next()!r} at byte {self._before + self._at}, not {mark!r}")
        self._at += 1

    def _next(self) -> str:
        """The next character that is no blank, not taken; "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _more(self, wanted: int = 0) -> bool:
        """Read on, and forget what lies behind; False at the end of the file."""
        raw = self._file.read(max(CHUNK, wanted))
        if raw:
            self._before += self._at
            self._text = self._text[self._at :] + raw.decode("latin-1")
            self._at = 0
        return bool(raw)

"""The structure of a video container, read without FFmpeg: declared length, bytes of frames.

`extent` gives the length that a file declares, so that `harness.video.index` can refuse a cut file,
which FFmpeg would decode as far as it goes. `Tables` lets FFmpeg list an MP4 file's frames from the
file's tables, without reading the gigabytes of frames between them.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harness.files import open_regular

MAX_BOXES = 1_000_000  # boxes of a file that are read
EBML_ID, SEGMENT_ID = 0x1A45DFA3, 0x18538067
"""Ids of the two elements of which a Matroska or WebM file consists (RFC 8794, RFC 9559)."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Range of a container's content by its own tables, in bytes from the start of the file."""

    end: int | None
    """End of the content as declared; None where the container does not declare it."""
    payload: tuple[tuple[int, int], ...] = ()
    """(first byte, byte after the last) of stretches that hold frames and no tables."""


def extent(path: Path) -> Extent:
    """Return the extent that an MP4 (or related), Matroska, WebM or AVI file declares."""
    size = path.stat().st_size
    with open_regular(path) as file:
        start = file.read(12)
        if start[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide"):
            return _iso(file, size)
        if start[:4] == EBML_ID.to_bytes(4):
            return Extent(_matroska(file))
        if start[:4] == b"RIFF":
            return Extent(8 + int.from_bytes(start[4:8], "little"))
    return Extent(None)


def _iso(file: BinaryIO, size: int) -> Extent:
    """Return the extent of an MP4 file (ISO/IEC 14496-12, section 4.2).

    The file consists of boxes; `mdat` holds frames, `moov` and `moof` tables.
    """
    payload = []
    end = 0
    for kind, first, last in _boxes(file, size):
        if kind in (b"mdat", b"moov", b"moof"):
            end = last
        if kind == b"mdat":
            payload.append((first, min(last, size)))
    return Extent(end or None, tuple(payload))


def _boxes(file: BinaryIO, size: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield (kind, first byte of the content, byte after the last) of each box at the top level."""
    place = 0
    for _ in range(MAX_BOXES):
        file.seek(place)
        head = file.read(16)
        if len(head) < 8 or not head[4:8].isascii():
            return
        length, kind = struct.unpack(">I4s", head[:8])
        start = place + 8
        if length == 1 and len(head) == 16:
            length, start = int.from_bytes(head[8:]), place + 16
        elif length == 0:  # to the end of the file
            length = size - place
        if length < start - place:
            return
        yield kind, start, place + length
        place += length


def _matroska(file: BinaryIO) -> int | None:
    """Return the declared end of a Matroska file: that of its segment; None: not declared."""
    file.seek(0)
    end = 0
    for identifier in (EBML_ID, SEGMENT_ID):
        if int.from_bytes(file.read(4)) != identifier or (length := _element_size(file)) is None:
            return None
        end = file.tell() + length
        if identifier == EBML_ID:
            file.seek(end)
    return end


def _element_size(file: BinaryIO) -> int | None:
    """Read the size of a Matroska element's content in bytes; None: not known.

    The number of leading zero bits of the first byte is the number of bytes that follow it.
    """
    first = file.read(1)
    if not first or not first[0]:
        return None
    n_following = 8 - first[0].bit_length()
    size = first[0] & ((1 << (7 - n_following)) - 1)
    size = size << (8 * n_following) | int.from_bytes(file.read(n_following))
    return None if size == (1 << (7 * (n_following + 1))) - 1 else size  # all ones: not known


class Tables:
    """A file object for FFmpeg that reads the bytes of frames as zeros while `skipping`.

    An MP4 file's packets are listed in its tables, but FFmpeg reads each packet's content as well.
    With zeros in its place, an hour of video is listed without reading gigabytes.
    """

    def __init__(self, path: Path, payload: tuple[tuple[int, int], ...]) -> None:
        self._file = open_regular(path)
        self._payload = payload
        self._place = 0
        self._size = path.stat().st_size
        self.skipping = False
        self.name = path.name

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; those of frames are zeros while `skipping`."""
        size = max(0, min(size, self._size - self._place))
        end = self._place + size
        is_frame = any(first <= self._place and end <= last for first, last in self._payload)
        if self.skipping and is_frame:
            self._place = end
            return bytes(size)
        data = self._bytes(size)
        self._place += len(data)
        return data

    def _bytes(self, size: int) -> bytes:
        self._file.seek(self._place)
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position, as for any file."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def tell(self) -> int:
        """Return the position, as for any file."""
        return self._place

    def close(self) -> None:
        """Close, as for any file."""
        self._file.close()

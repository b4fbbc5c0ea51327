"""Length of a video container by its own tables, read without FFmpeg: a few bytes a box.

FFmpeg decodes a file that was cut as far as it goes; here a cut file is refused. And to list the
frames of an MP4 file only its tables are needed, not the gigabytes between them.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harness.files import open_regular

MAX_BOXES = 1_000_000
EBML, SEGMENT = 0x1A45DFA3, 0x18538067
"""RFC 8794 and RFC 9559: the two elements that a Matroska or WebM file consists of."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Range of a container's content by its own tables, in bytes from the start of the file."""

    end: int | None
    """End of the content as declared; None where the container does not declare it."""
    payload: tuple[tuple[int, int], ...] = ()
    """(first byte, byte after the last) of stretches that hold frames and no tables."""


def extent(path: Path) -> Extent:
    """Read the extent from the file's own structure: MP4 and its kin, Matroska and WebM, AVI."""
    size = path.stat().st_size
    with open_regular(path) as file:
        start = file.read(12)
        if start[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide"):
            return _iso(file, size)
        if start[:4] == EBML.to_bytes(4):
            return Extent(_matroska(file))
        if start[:4] == b"RIFF":
            return Extent(8 + int.from_bytes(start[4:8], "little"))
    return Extent(None)


def _iso(file: BinaryIO, size: int) -> Extent:
    """ISO/IEC 14496-12, section 4.2: boxes one after another, `mdat` holds the frames."""
    payload = []
    end = 0
    for kind, first, last in _boxes(file, size):
        if kind in (b"mdat", b"moov", b"moof"):
            end = last
        if kind == b"mdat":
            payload.append((first, min(last, size)))
    return Extent(end or None, tuple(payload))


def _boxes(file: BinaryIO, size: int) -> Iterator[tuple[bytes, int, int]]:
    """(kind, first byte of its content, byte after its last) of every box at the top level."""
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
    file.seek(0)
    end = 0
    for wanted in (EBML, SEGMENT):
        if int.from_bytes(file.read(4)) != wanted or (length := _size(file)) is None:
            return None
        end = file.tell() + length
        if wanted == EBML:
            file.seek(end)
    return end


def _size(file: BinaryIO) -> int | None:
    """An element's size: its length in bytes is the number of leading zero bits, and one."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    more = 8 - first[0].bit_length()
    value = first[0] & ((1 << (7 - more)) - 1)
    value = value << (8 * more) | int.from_bytes(file.read(more))
    return None if value == (1 << (7 * (more + 1))) - 1 else value  # all ones: not known


class Tables:
    """A file for FFmpeg to list packets from: once `skipping`, frames' bytes are zeros.

    The list of an MP4 file's packets comes from its tables alone, but FFmpeg reads each packet
    too. So an hour of video is listed without reading its gigabytes.
    """

    def __init__(self, path: Path, payload: tuple[tuple[int, int], ...]) -> None:
        self._file = open_regular(path)
        self._payload = payload
        self._place = 0
        self._size = path.stat().st_size
        self.skipping = False
        self.name = path.name

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; those of frames are zeros while `skipping`."""
        size = max(0, min(size, self._size - self._place))
        last = self._place + size
        inside = any(first <= self._place and last <= end for first, end in self._payload)
        if self.skipping and inside:
            self._place = last
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

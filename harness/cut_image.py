"""JPEG and PNG files that were not copied to their end, or have a hole, which decoders take.

A download that reserves its place first leaves zeros where it stopped. libjpeg decodes them, or
warns of the lack of data, which neither Pillow nor OpenCV passes on.
"""

import os
import re
import struct
from collections.abc import Iterator
from typing import BinaryIO

JPEG_START, JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"
MARKER = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])", re.S)
"""A marker of JPEG that begins a segment or ends the image; those within coded data are passed, and
so are fill bytes before it: an expression that begins with one byte is found ten times as fast."""
TABLES, SCAN, SEQUENTIAL = b"\xc4", b"\xda", (b"\xc0", b"\xc1")
"""Segments of Huffman tables, of a scan, and of a frame whose blocks are coded one by one."""
END_OF_BLOCK = 0
HOLE = bytes(128)
PNG_START, PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND"
TAIL = 64
"""Bytes at the end of a JPEG in which its last marker is looked for first."""
MAX_ENCODED = 2**28  # bytes of a JPEG that are looked at


def cut_in(file: BinaryIO, *, inside: bool = False) -> str | None:
    """Return what a JPEG or PNG lacks, in words; None for a complete one and for other files.

    Args:
        file: The file, whose position changes.
        inside: Read a whole JPEG to find a hole in it, and not only its end.
    """
    file.seek(0)
    head = file.read(len(PNG_START))
    if head.startswith(JPEG_START):
        if not _jpeg_ends(file):
            return "a JPEG without its end (the marker EOI)"
        if inside and _has_hole(file):
            return f"a JPEG with {len(HOLE)} bytes or more of zeros in its data"
    if head == PNG_START and not _png_ends(file):
        return "a PNG without its end (the chunk IEND)"
    return None


def _jpeg_ends(file: BinaryIO) -> bool:
    """Return True if a JPEG's data are ended by its marker, whatever follows it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TAIL))
    if file.read().rstrip(b"\0").endswith(JPEG_END):
        return True
    return any(code == JPEG_END[1:] for code, _, _ in jpeg_segments(_content(file)))


def _has_hole(file: BinaryIO) -> bool:
    """Return True if a JPEG's coded data hold zeros that no encoder writes.

    Where every table of a scan gives the code of zeros to the end of a block, as for an image of
    one colour, they may be an image; elsewhere they would be blocks of nothing but noise.
    """
    data = _content(file)
    if HOLE not in data:
        return False
    first: dict[int, int] = {}  # the symbol whose code is all zeros, by class and table
    is_sequential = False
    for code, segment, end in jpeg_segments(data):
        if code in SEQUENTIAL:
            is_sequential = True
        elif code == TABLES:
            first |= _first_symbols(segment)
        elif code == SCAN and is_sequential and segment:
            tables = [0x10 | (selector & 15) for selector in segment[2 : 2 + 2 * segment[0] : 2]]
            if any(first.get(table, END_OF_BLOCK) != END_OF_BLOCK for table in tables):
                following = MARKER.search(data, end)
                return data.find(HOLE, end, following.start() if following else len(data)) >= 0
    return False


def _first_symbols(segment: bytes) -> dict[int, int]:
    """Return the first symbol of each Huffman table, whose code is zeros, by its class and number.

    A table is that byte, the numbers of codes of 1 to 16 bits, and their symbols.
    """
    first, place = {}, 0
    while place + 17 < len(segment):
        first[segment[place]] = segment[place + 17]
        place += 17 + sum(segment[place + 1 : place + 17])
    return first


def jpeg_segments(data: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield the code, the content and the end of each segment of a JPEG to its end marker.

    A preview in a segment, which has an end of its own, is passed over with it.
    """
    place = len(JPEG_START) - 1
    while marker := MARKER.search(data, place):
        start = place = marker.end()
        if marker[0].endswith(JPEG_END):
            yield marker[1], b"", start
            return
        place += int.from_bytes(data[start : start + 2])
        yield marker[1], data[start + 2 : place], place


def _content(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(MAX_ENCODED)


def _png_ends(file: BinaryIO) -> bool:
    """Return True if the chunks of a PNG lead to the last one, whatever follows it."""
    size, place = file.seek(0, os.SEEK_END), len(PNG_START)
    while place + 12 <= size:
        file.seek(place)
        length, name = struct.unpack(">I4s", file.read(8))
        if name == PNG_END:
            return True
        place += 12 + length
    return False

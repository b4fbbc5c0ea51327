"""Detection of JPEG and PNG files that are truncated or have a hole of zeros.

Decoders accept them: a download that reserves its space first leaves zeros where it stopped, which
libjpeg decodes, or reports by a warning that neither Pillow nor OpenCV passes on. `cut_in` is
called before an image is decoded (`harness.image_file`), so that such an image is not scored.
"""

import os
import re
import struct
from collections.abc import Iterator
from typing import BinaryIO

JPEG_START, JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"
MARKER = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])", re.S)
"""A JPEG marker that begins a segment or ends the image, such as FF DA. It does not match those
within coded data (FF 00, FF D0 to FF D7). Fill bytes (FF) before it are not part of the match: a
pattern that begins with one byte is found ten times as fast."""
TABLES, SCAN, SEQUENTIAL = b"\xc4", b"\xda", (b"\xc0", b"\xc1")
"""Codes of JPEG segments: Huffman tables, a scan, and the start of a frame whose blocks are coded
one by one (not progressively)."""
END_OF_BLOCK = 0  # symbol of a Huffman table
HOLE = bytes(128)  # this many zeros in a row, or more, are a hole
PNG_START, PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND"
TAIL = 64
"""Bytes at the end of a JPEG in which its last marker is looked for first."""
MAX_ENCODED = 2**28  # bytes of a JPEG that are read


def cut_in(file: BinaryIO, *, inside: bool = False) -> str | None:
    """Return the fault of a cut JPEG or PNG, in words; None: it is complete, or another format.

    Args:
        file: The file, whose position changes.
        inside: Read a whole JPEG to find a hole in it, and not only its end.
    """
    file.seek(0)
    head = file.read(len(PNG_START))
    if head.startswith(JPEG_START):
        if not _jpeg_ends(file):
            return "a truncated JPEG (the marker EOI is missing)"
        if inside and _has_hole(file):
            return f"a JPEG with {len(HOLE)} bytes or more of zeros in its data"
    if head == PNG_START and not _png_ends(file):
        return "a truncated PNG (the chunk IEND is missing)"
    return None


def _jpeg_ends(file: BinaryIO) -> bool:
    """Return True if a JPEG has its end marker, whatever follows that."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TAIL))
    if file.read().rstrip(b"\0").endswith(JPEG_END):
        return True
    return any(code == JPEG_END[1:] for code, _, _ in jpeg_segments(_content(file)))


def _has_hole(file: BinaryIO) -> bool:
    """Return True if a JPEG's coded data hold a run of zeros that no encoder writes.

    If in all Huffman tables of the scan the code of zeros means the end of a block, the zeros may
    be an image, say of one colour: this is not a hole. With other tables they would be noise.
    """
    data = _content(file)
    if HOLE not in data:
        return False
    symbols: dict[int, int] = {}  # the symbol whose code is all zeros, by the table's id
    is_sequential = False
    for code, segment, end in jpeg_segments(data):
        if code in SEQUENTIAL:
            is_sequential = True
        elif code == TABLES:
            symbols |= _first_symbols(segment)
        elif code == SCAN and is_sequential and segment:
            # A scan begins with the number of components, then two bytes for each: its id, and a
            # selector whose low 4 bits number its AC table, whose id is 0x10 + that number.
            tables = [0x10 | (selector & 15) for selector in segment[2 : 2 + 2 * segment[0] : 2]]
            if any(symbols.get(table, END_OF_BLOCK) != END_OF_BLOCK for table in tables):
                following = MARKER.search(data, end)
                return data.find(HOLE, end, following.start() if following else len(data)) >= 0
    return False


def _first_symbols(segment: bytes) -> dict[int, int]:
    """Return the first symbol of each Huffman table, whose code is all zeros, by the table's id.

    In a segment a table is its id (class and number, one byte), 16 bytes with the numbers of codes
    of 1 to 16 bits, and the symbols of these codes.
    """
    symbols, offset = {}, 0
    while offset + 17 < len(segment):
        symbols[segment[offset]] = segment[offset + 17]
        offset += 17 + sum(segment[offset + 1 : offset + 17])
    return symbols


def jpeg_segments(data: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield (code, content, place of its end) of each segment of a JPEG, up to its end marker.

    A preview image inside a segment, with its own end marker, is part of the content.
    """
    offset = len(JPEG_START) - 1
    while marker := MARKER.search(data, offset):
        start = offset = marker.end()
        if marker[0].endswith(JPEG_END):
            yield marker[1], b"", start
            return
        offset += int.from_bytes(data[start : start + 2])
        yield marker[1], data[start + 2 : offset], offset


def _content(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(MAX_ENCODED)


def _png_ends(file: BinaryIO) -> bool:
    """Return True if the chunks of a PNG reach the end chunk, whatever follows that."""
    size, offset = file.seek(0, os.SEEK_END), len(PNG_START)
    while offset + 12 <= size:
        file.seek(offset)
        length, name = struct.unpack(">I4s", file.read(8))
        if name == PNG_END:
            return True
        offset += 12 + length
    return False

"""JPEG and PNG files without their metadata, for servers that are sent files and not pixels.

A file of a photograph is a tenth of its pixels encoded anew without loss, and costs no encoding.
What cameras and editors add (Exif, XMP, profiles, comments, previews) is left out: it names people
and places, and servers differ in what they do with it. Tables and coded data stay as they are.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from PIL import Image

from harness.cut_image import JPEG_END, JPEG_START, PNG_START, cut_in, jpeg_segments
from harness.image_file import PROFILE, UNFIT, image_conversions, orientation

SCAN, JFIF, ADOBE, COMMENT = b"\xda", b"\xe0", b"\xee", b"\xfe"
"""JFIF's and Adobe's segments say how colours are coded, and are kept."""
APPLICATION = frozenset(bytes([code]) for code in range(0xE0, 0xF0)) | {COMMENT}
PIXEL_CHUNKS = frozenset({b"IHDR", b"IDAT", b"IEND"})
FORMATS = ("JPEG", "PNG")
UPRIGHT = (None, 1)


@dataclass(frozen=True, slots=True)
class PlainImage:
    """An encoded image whose pixels any decoder shows as `image_file.decode_image` does."""

    kind: Literal["jpeg", "png"]
    data: bytes
    size: tuple[int, int]
    """(width, height) in pixels."""


def plain_image(data: bytes) -> PlainImage | None:
    """Return an image file without metadata; None where its pixels have to be encoded anew.

    That is where `decode_image` does more than decode: the image is turned, transparent, animated,
    of 16 bits, in CMYK; grey or a palette, which servers hand on as it is; and where it is damaged,
    or of another format. Nothing is decoded.
    """
    file = io.BytesIO(data)
    try:
        with Image.open(file, formats=FORMATS) as image:
            plain = (
                image.format in FORMATS
                and image.mode == "RGB"
                and orientation(image) in UPRIGHT
                and set(image_conversions(image)) <= {PROFILE}
                and cut_in(file, inside=True) is None
            )
            if not plain:
                return None
            if image.format == "JPEG":
                return PlainImage("jpeg", _plain_jpeg(data), image.size)
            return PlainImage("png", b"".join(_plain_png(data)), image.size)
    except (*UNFIT, struct.error):
        return None


def _plain_jpeg(data: bytes) -> bytes:
    """A JPEG's segments but for metadata, up to the end of its image."""
    kept, coded = [JPEG_START[:2]], 0
    for code, content, end in jpeg_segments(data):
        if code == JPEG_END[1:]:
            return b"".join([*kept, data[coded:end]])
        if coded:  # tables between the scans of a progressive image, which are kept with them
            continue
        if code == SCAN:
            coded = end - len(content) - 4
        elif code in (JFIF, ADOBE) or code not in APPLICATION:
            kept.append(b"\xff" + code + struct.pack(">H", len(content) + 2) + content)
    raise ValueError("a JPEG without its end")


def _plain_png(data: bytes) -> Iterator[bytes]:
    """Yield a PNG's signature and the chunks of its pixels; ValueError if one is damaged."""
    yield PNG_START
    place = len(PNG_START)
    while place < len(data):
        length, name = struct.unpack_from(">I4s", data, place)
        end = place + 12 + length
        if name in PIXEL_CHUNKS:
            if zlib.crc32(data[place + 4 : end - 4]) != int.from_bytes(data[end - 4 : end]):
                raise ValueError("a PNG whose checksum differs")
            yield data[place:end]
        if name == b"IEND":
            return
        place = end
    raise ValueError("a PNG without its end")

"""Removal of metadata from JPEG and PNG files, which are then sent to servers of networks.

Sending the file is cheaper than encoding its pixels again without loss: a photograph's file is a
tenth as large. Metadata (Exif, XMP, profiles, comments, previews) is left out because it names
people and places, and because servers differ in what they do with it. `plain_image`, called by
`harness.media.Media.plain_file`, copies coded data and tables unchanged and decodes nothing.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from PIL import Image

from harness.cut_image import JPEG_END, JPEG_START, PNG_START, cut_in, jpeg_segments
from harness.image_file import DAMAGE_ERRORS, PROFILE, image_conversions, orientation

SCAN, JFIF, ADOBE, COMMENT = b"\xda", b"\xe0", b"\xee", b"\xfe"
"""Codes of segments of a JPEG. JFIF's and Adobe's say how colours are coded, and are kept."""
METADATA_CODES = frozenset(bytes([code]) for code in range(0xE0, 0xF0)) | {COMMENT}
"""Codes of a JPEG's application segments (APP0 to APP15) and of comments."""
PIXEL_CHUNKS = frozenset({b"IHDR", b"IDAT", b"IEND"})
"""Names of a PNG's chunks that are kept."""
FORMATS = ("JPEG", "PNG")
UPRIGHT = (None, 1)  # orientation tags of an image that is not turned


@dataclass(frozen=True, slots=True)
class PlainImage:
    """An encoded image whose pixels any decoder shows as `image_file.decode_image` does."""

    kind: Literal["jpeg", "png"]
    data: bytes
    size: tuple[int, int]
    """(width, height) in pixels."""


def plain_image(data: bytes) -> PlainImage | None:
    """Return an image file without metadata; None where its pixels have to be encoded instead.

    The pixels have to be encoded where `decode_image` does more than decode (the image is turned,
    transparent, animated, in CMYK, or has 16 bits a channel), where servers do not convert to RGB
    (grey, palettes), and where the file is damaged or of another format.
    """
    file = io.BytesIO(data)
    try:
        with Image.open(file, formats=FORMATS) as image:
            can_be_copied = (
                image.format in FORMATS
                and image.mode == "RGB"
                and orientation(image) in UPRIGHT
                # A colour profile is not applied in decoding, so that leaving it out is harmless.
                and set(image_conversions(image)) <= {PROFILE}
                and cut_in(file, inside=True) is None
            )
            if not can_be_copied:
                return None
            if image.format == "JPEG":
                return PlainImage("jpeg", _plain_jpeg(data), image.size)
            return PlainImage("png", b"".join(_plain_png(data)), image.size)
    except (*DAMAGE_ERRORS, struct.error):
        return None


def _plain_jpeg(data: bytes) -> bytes:
    """Return a JPEG up to its end marker, without segments of metadata; ValueError without end."""
    segments, scans_start = [JPEG_START[:2]], 0
    for code, content, end in jpeg_segments(data):
        if code == JPEG_END[1:]:
            return b"".join([*segments, data[scans_start:end]])
        if scans_start:  # scans, and the tables between those of a progressive image: all are kept
            continue
        if code == SCAN:
            scans_start = end - len(content) - 4  # before the marker and the length, 2 bytes each
        elif code in (JFIF, ADOBE) or code not in METADATA_CODES:
            segments.append(b"\xff" + code + struct.pack(">H", len(content) + 2) + content)
    raise ValueError("a JPEG without its end")


def _plain_png(data: bytes) -> Iterator[bytes]:
    """Yield a PNG's signature and the chunks of its pixels; ValueError if one is damaged."""
    yield PNG_START
    offset = len(PNG_START)
    while offset < len(data):
        length, name = struct.unpack_from(">I4s", data, offset)
        end = offset + 12 + length
        if name in PIXEL_CHUNKS:
            if zlib.crc32(data[offset + 4 : end - 4]) != int.from_bytes(data[end - 4 : end]):
                raise ValueError("a PNG whose checksum differs")
            yield data[offset:end]
        if name == b"IEND":
            return
        offset = end
    raise ValueError("a PNG without its end")

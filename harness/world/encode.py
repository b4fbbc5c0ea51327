"""Encoding of images: PNG files whose bytes are equal on every machine, and JPEG files.

zlib's bytes depend on the library that Python was built with, so PNG data are compressed here: one
deflate block with the fixed codes (RFC 1951), in which a run of equal pixels becomes a reference to
the pixel before it. Any decoder can read it.
"""

import struct
import zlib
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.media import Frame
from harness.world.raster import render
from harness.world.scene import Scene

JPEG_QUALITY = 95
MAX_REPEAT, MIN_REPEAT = 258, 3  # bytes that one deflate reference can repeat

IntArray = NDArray[np.int64]


def write_jpeg(path: Path, image: Frame) -> None:
    """Write an RGB image as JPEG of quality 95, without colour subsampling."""
    from PIL import Image

    Image.fromarray(image).save(path, "JPEG", quality=JPEG_QUALITY, subsampling=0)


@lru_cache(maxsize=512)
def scene_png(scene: Scene, frame: int) -> bytes:
    """Return the PNG file of one frame of a scene; cached, as many benchmarks show one scene."""
    return encode_png(render(scene, frame))


def encode_png(image: NDArray[np.uint8]) -> bytes:
    """Return the PNG file of an image, height × width (grey) or height × width × 3 (RGB), uint8."""
    height, width = image.shape[:2]
    channels = image.shape[2] if image.ndim == 3 else 1
    rows = np.zeros((height, 1 + width * channels), dtype=np.uint8)  # first byte: no filter
    rows[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", header),
            _chunk(b"IDAT", _zlib_stream(rows.ravel(), distance=channels)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _zlib_stream(data: NDArray[np.uint8], *, distance: int) -> bytes:
    """Return bytes as a zlib stream; `distance` is the number of bytes of a pixel."""
    values, bits = _symbols(data, distance=distance)
    values = np.concatenate([[0b011], values, [0]])  # last block, fixed codes; end of block
    bits = np.concatenate([[3], bits, [7]])
    checksum = struct.pack(">I", zlib.adler32(data.tobytes()))
    return b"\x78\x01" + _pack_bits(values, bits) + checksum


def _symbols(data: NDArray[np.uint8], *, distance: int) -> tuple[IntArray, IntArray]:
    """Return the deflate symbols of the data: (their bits, the first one lowest; numbers of bits).

    Bytes that equal those `distance` before them are joined to references of 3 to 258 bytes.
    """
    same = np.zeros(data.size, dtype=np.bool_)
    np.equal(data[distance:], data[:-distance], out=same[distance:])
    edges = np.flatnonzero(np.diff(same, prepend=not same[:1], append=not same[-1:]))
    runs = same[edges[:-1]]
    starts, ends = edges[:-1][runs], edges[1:][runs]
    copies = -((starts - ends) // MAX_REPEAT)  # references that a run takes, rounded up
    number = np.arange(copies.sum()) - np.repeat(np.cumsum(copies) - copies, copies)  # in its run
    places = np.repeat(starts, copies) + MAX_REPEAT * number
    lengths = np.minimum(np.repeat(ends, copies) - places, MAX_REPEAT)
    places, lengths = places[lengths >= MIN_REPEAT], lengths[lengths >= MIN_REPEAT]
    steps = np.zeros(data.size + 1, dtype=np.int8)
    steps[places] += 1
    steps[places + lengths] -= 1
    covered = np.cumsum(steps[:-1], dtype=np.int8) > 0
    covered[places] = False  # a reference is sent at its first byte
    sent = np.flatnonzero(~covered)
    literal_values, literal_bits = _literal_codes()
    repeat_values, repeat_bits = _repeat_codes(distance)
    values, bits = literal_values[data[sent]], literal_bits[data[sent]]
    repeats = np.searchsorted(sent, places)
    values[repeats], bits[repeats] = repeat_values[lengths], repeat_bits[lengths]
    return values, bits


def _pack_bits(values: IntArray, bits: IntArray) -> bytes:
    """Join symbols of `bits` bits each to bytes, the first bit lowest."""
    ends = np.cumsum(bits)
    words, shifts = np.divmod(ends - bits, 32)
    moved = values << shifts
    # No two symbols share a bit of a word, so that the sum of a word's symbols joins them.
    low = np.bincount(words, moved & 0xFFFFFFFF, minlength=int(ends[-1]) // 32 + 2)
    high = np.bincount(words + 1, moved >> 32, minlength=len(low))
    return (low + high).astype("<u4").tobytes()[: -(-int(ends[-1]) // 8)]


def _reversed(code: int, bits: int) -> int:
    """Return a code with its bits reversed: deflate sends a code's highest bit first."""
    return int(f"{code:0{bits}b}"[::-1], 2)


@cache
def _literal_codes() -> tuple[IntArray, IntArray]:
    """Return (codes, numbers of bits) of the 256 bytes: RFC 1951, section 3.2.6."""
    bits = np.where(np.arange(256) < 144, 8, 9)
    codes = [0x30 + byte if byte < 144 else 0x190 + byte - 144 for byte in range(256)]
    values = [_reversed(code, int(length)) for code, length in zip(codes, bits, strict=True)]
    return np.array(values, dtype=np.int64), bits.astype(np.int64)


@cache
def _repeat_codes(distance: int) -> tuple[IntArray, IntArray]:
    """Return (codes, numbers of bits) of references by their length: RFC 1951, section 3.2.5.

    `distance` is 1 to 4 bytes.
    """
    values = np.zeros(MAX_REPEAT + 1, dtype=np.int64)
    bits = np.zeros(MAX_REPEAT + 1, dtype=np.int64)
    for length in range(MIN_REPEAT, MAX_REPEAT + 1):
        symbol, extra, extra_bits = _length_symbol(length)
        code_bits = 7 if symbol < 280 else 8
        code = symbol - 256 if symbol < 280 else 0xC0 + symbol - 280
        values[length] = (
            _reversed(code, code_bits)
            | extra << code_bits
            | _reversed(distance - 1, 5) << (code_bits + extra_bits)
        )
        bits[length] = code_bits + extra_bits + 5
    return values, bits


def _length_symbol(length: int) -> tuple[int, int, int]:
    """Return (symbol, value of the extra bits, number of extra bits) of a reference's length."""
    if length == MAX_REPEAT:
        return 285, 0, 0
    if length < 11:
        return 254 + length, 0, 0
    extra_bits = (length - 3).bit_length() - 3
    first = 4 << extra_bits
    step, extra = divmod(length - 3 - first, 1 << extra_bits)
    return 261 + 4 * extra_bits + step, extra, extra_bits

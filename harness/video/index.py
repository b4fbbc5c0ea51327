"""The index of a video file: display times of all frames, and the key frames among them.

`index_of` reads the index from the file's packets, without decoding: each packet has the time at
which its frame is shown, also if the rate varies. If packets lack times (some AVI files) or may
hold frames that are never shown (VP8), the file is decoded once; times are then those of the
decoded frames or, if these do not rise, spread evenly over the file's length.
"""

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from harness.errors import MaskError, MediaError, MissingDependency
from harness.files import refuse_other, status_marks
from harness.foreign import reading
from harness.masks import check_size
from harness.video.boxes import Tables, extent

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,asf,ogg"
"""Formats that are opened, whatever a file's name. Playlists, which name other files, are not."""
HIDING_CODECS = frozenset({"vp8", "vp6", "vp6f", "vp6a"})
"""Codecs whose packets may hold a frame that is never shown."""
DEEP_LOSS = "more than 8 bits a channel, of which the high 8 are shown"
ALPHA_LOSS = "transparency in a video, which is not shown, as by the official decoders"
MAX_FRAMES = 10_000_000
MICROSECONDS = 1_000_000
SMALL_FRAME = 2**18  # pixels up to which several threads cost more than they save
MAX_THREADS = 8
FIX = "Download the file again: a truncated video is not scored."


@dataclass(frozen=True, slots=True)
class Index:
    """The frames of a video in the order in which they are shown."""

    size: tuple[int, int]
    """(width, height) in pixels, after the rotation that the file declares."""
    stamps: "array[int]"
    """Display time of each frame, in units of `unit` seconds; all different, in ascending order."""
    keys: "array[int]"
    """Stamps of the frames from which decoding can start, in ascending order."""
    unit: float
    """Length of a stamp's unit in seconds."""
    start: int
    """Stamp of time 0, at which the whole file starts."""
    counted: bool = False
    """True if the stamps are 0, 1, 2, …: the file's own are useless, and frames are counted."""
    conversions: tuple[str, ...] = ()
    """Loss of a frame that is converted to RGB of 8 bits, in words."""

    def times(self) -> tuple[float, ...]:
        """Seconds from the start of the file, one a frame."""
        return tuple((stamp - self.start) * self.unit for stamp in self.stamps)

    def key_before(self, stamp: int) -> int:
        """Return the last stamp, at or before this one, from which decoding can start."""
        place = bisect_right(self.keys, stamp)
        return self.keys[max(place - 1, 0)]


def index_of(path: Path) -> Index:
    """Return the index of a file; it is cached until the file's size or time of change differs.

    Raises:
        MediaError: the file is missing, cut, not a video, without a frame, or of too large frames.
        MissingDependency: the package av is not installed.
    """
    fix = "`harness list tasks NAME` prints the source of a benchmark's data."
    with reading(path, MediaError, f"video {path}", "a file", OSError, fix=fix):
        status = path.stat()
    return _index(path, *status_marks(status))


@lru_cache(maxsize=64)
def _index(path: Path, size: int, *changed: int) -> Index:
    """Read the index of a file of `size` bytes; `changed` (times of change) is for the cache."""
    if not size:
        raise MediaError(f"video {path}", expected="a video file", found="an empty file", fix=FIX)
    with faults(path):
        declared = extent(path)
        if declared.end is not None and declared.end > size:
            raise MediaError(
                f"video {path}",
                expected=f"{declared.end} bytes, according to its header",
                found=f"{size}",
                fix=FIX,
            )
        first, may_hide = _first_frame(path)
        width, height = first_size(first)
        check_size(height, width, f"video {path}")
        index = None
        if not may_hide:
            index = _index_from_packets(path, declared.payload, (width, height))
        if index is None:
            index = _index_from_decoding(path, (width, height))
        return replace(index, conversions=tuple(_conversions(first)))


def _conversions(frame: "VideoFrame") -> Iterator[str]:
    """Yield what a frame loses when it is converted to RGB of 8 bits, in words."""
    parts = frame.format.components
    if any(part.bits > 8 for part in parts):
        yield DEEP_LOSS
    if any(part.is_alpha for part in parts):
        yield ALPHA_LOSS


@contextmanager
def faults(path: Path) -> Iterator[None]:
    """Turn an error of FFmpeg about a file into a MediaError that names the file."""
    unfit = (OSError, ValueError, EOFError, library().error.FFmpegError)
    with reading(path, MediaError, f"video {path}", "a complete video file", *unfit, fix=FIX):
        try:
            yield
        except MaskError as error:
            raise MediaError(str(error)) from error


def library() -> ModuleType:
    """Import the package av (FFmpeg); raise MissingDependency if it is not installed."""
    try:
        import av
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "video files", expected="the package av", found="none", fix="pip install av"
        ) from error
    return av


def open_file(path: Path | Tables) -> "InputContainer":
    """Open a file as one of `FORMATS`."""
    if isinstance(path, Path):
        refuse_other(path, MediaError, f"video {path}")
    # "file:" keeps a name with a colon from being taken for another protocol.
    name: object = f"file:{path}" if isinstance(path, Path) else path
    container: InputContainer = library().open(name, options={"format_whitelist": FORMATS})
    return container


def stream_of(container: "InputContainer") -> "VideoStream":
    """Return the first video stream that is not the cover of a sound file; ValueError: none."""
    av = library()
    for stream in container.streams.video:
        if not stream.disposition & av.stream.Disposition.attached_pic:
            if stream.codec_context is None:
                raise ValueError("a video stream with a codec that FFmpeg does not support")
            small = stream.codec_context.width * stream.codec_context.height <= SMALL_FRAME
            stream.codec_context.thread_count = (
                1 if small else min(os.cpu_count() or 1, MAX_THREADS)
            )
            stream.thread_type = "AUTO"
            return stream
    others = sorted({stream.type for stream in container.streams})
    raise ValueError(f"no video stream, only {', '.join(others) or 'nothing'}")


def _first_frame(path: Path) -> "tuple[VideoFrame, bool]":
    """Return (the first frame, True if the codec may hide frames)."""
    with open_file(path) as container:
        stream = stream_of(container)
        for frame in container.decode(stream):
            return frame, stream.codec_context.name in HIDING_CODECS or stream.name in HIDING_CODECS
    raise ValueError("no frame")


def first_size(frame: "VideoFrame") -> tuple[int, int]:
    """Return (width, height) of a frame after the rotation that the file declares."""
    turned = frame.rotation % 180 != 0
    return (frame.height, frame.width) if turned else (frame.width, frame.height)


def _index_from_packets(
    path: Path, payload: tuple[tuple[int, int], ...], size: tuple[int, int]
) -> Index | None:
    """Build the index from the packets alone, without reading `payload`; None if it is not enough.

    `payload` has the ranges of bytes that hold frames (`boxes.Extent`), `size` is (width, height).
    """
    stamps, keys = array("q"), array("q")
    with closing(Tables(path, payload)) as tables, open_file(tables) as container:
        stream = stream_of(container)
        unit, start = _clock(container, stream)
        tables.skipping = bool(payload)
        for packet in container.demux(stream):
            if packet.dts is None and packet.pts is None and not packet.size:
                continue  # the mark of the end
            if packet.pts is None or len(stamps) >= MAX_FRAMES:
                return None
            if packet.is_discard:
                continue  # outside the file's edit list: never shown, though some players decode it
            stamps.append(packet.pts)
            if packet.is_keyframe:
                keys.append(packet.pts)
    return _index_from_stamps(stamps, keys, unit, start, size)


def _index_from_stamps(
    stamps: "array[int]", keys: "array[int]", unit: float, start: int | None, size: tuple[int, int]
) -> Index | None:
    """Build the index from stamps in any order; None without a key, or if two stamps are equal."""
    if not keys or len(set(stamps)) < len(stamps):
        return None
    # Frames that are shown before the first key cannot be decoded.
    rising = array("q", sorted(stamp for stamp in stamps if stamp >= min(keys)))
    return Index(
        size,
        rising,
        array("q", sorted(keys)),
        unit,
        rising[0] if start is None else min(start, rising[0]),
    )


def _clock(container: "InputContainer", stream: "VideoStream") -> tuple[float, int | None]:
    """Return (seconds of a stamp's unit, stamp at which the file starts; None: not known)."""
    unit = stream.time_base or Fraction(1)
    start: int | None = container.start_time  # None, whatever the stubs say, where it is not known
    if start is None:
        return float(unit), None
    # Sound may begin before 0, by samples that its encoder needs to settle; they are not played.
    return float(unit), round(max(start, 0) / MICROSECONDS / unit)


def _index_from_decoding(path: Path, size: tuple[int, int]) -> Index:
    """Build the index by decoding the whole file; spread times evenly if its own are useless."""
    stamps, keys = array("q"), array("q")
    number = 0
    with open_file(path) as container:
        stream = stream_of(container)
        unit, start = _clock(container, stream)
        for frame in container.decode(stream):
            number += 1
            if frame.pts is not None and not (stamps and frame.pts <= stamps[-1]):
                stamps.append(frame.pts)
                if frame.key_frame:
                    keys.append(frame.pts)
        seconds = (container.duration or 0) / MICROSECONDS
        step = seconds / max(number, 1) or 1 / float(stream.average_rate or 1)
    index = _index_from_stamps(stamps, keys, unit, start, size)
    if index is not None and len(index.stamps) == number:
        return index
    return Index(size, array("q", range(number)), array("q", [0]), step, 0, counted=True)

"""Decoding of any frame of a video file: seek to a key frame before it, decode up to it.

`harness.video.media` gets a file's `Decoder` from `DECODERS`, and from it a frame by its number in
the order of display. Frames are height × width × 3, uint8, RGB. A damaged file is a MediaError.

The *stamp* of a frame is its display time in the file's own unit (`Index.unit`); a *key* is the
stamp of a frame from which decoding can start.
"""

import os
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from harness.errors import MediaError
from harness.files import status_marks
from harness.media import Frame
from harness.video.index import FIX, Index, faults, index_of, open_file, stream_of

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

SEEK_COST = 8  # frames that could be decoded in the time of a seek
MAX_OPEN = 12
"""Maximum number of open files, one for every thread that decodes at once, so that the next frame
of each file needs no seek."""
Passed: TypeAlias = Callable[[int, Frame], None]
"""Callback (number, frame) for frames that were decoded on the way to the wanted one."""


class Decoder:
    """One open file, and the position of its decoder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index: Index = index_of(path)
        self._lock = threading.Lock()
        self._container = open_file(path)
        self._stream = stream_of(self._container)
        self._frames: Iterator[VideoFrame] = iter(())
        self._at: int | None = None
        """The stamp of the frame that was decoded last; None: not known."""
        self._requested = -1
        """The number of the frame that was requested last."""

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._container.close()

    def frame(self, number: int, *, passed: Passed, room: int) -> Frame:
        """Decode one frame.

        Args:
            number: The frame's number in the order of display, from 0.
            passed: Callback for the frames that were decoded before this one, if the video is read
                backwards: the next request is likely for one of them.
            room: Largest number of frames that `passed` gets.

        Raises:
            MediaError: the file is damaged there.
        """
        with self._lock, faults(self.path):
            backwards = number == self._requested - 1
            self._requested = number
            earlier = range(max(0, number - room), number) if backwards else range(0)
            return self._decode_frame(number, earlier, passed)

    def _decode_frame(self, number: int, earlier: range, passed: Passed) -> Frame:
        """Decode one frame; give those with numbers in `earlier` to `passed` on the way."""
        stamps = self.index.stamps
        wanted, earlier_by_stamp = stamps[number], {stamps[place]: place for place in earlier}
        for key in self._seek_points(wanted):
            self._seek(key)
            for stamp, frame in self._frames_until(wanted):
                if stamp == wanted:
                    return self._image(frame, number)
                if stamp in earlier_by_stamp:
                    place = earlier_by_stamp[stamp]
                    passed(place, self._image(frame, place))
        raise MediaError(
            f"video {self.path}, frame {number}",
            fix=FIX,
            expected=f"it at {(wanted - self.index.start) * self.index.unit:.3f} s",
            found="none when it is decoded",
        )

    def _seek_points(self, wanted: int) -> Iterator[int | None]:
        """Yield keys from which to decode, the most promising first.

        The first is None, the present position, if the frame is not far ahead of it. Earlier keys
        follow in case decoding from a key begins after the frame.
        """
        keys, stamps = self.index.keys, self.index.stamps
        key = self.index.key_before(wanted)
        if self._at is not None and self._at < wanted:
            ahead = bisect_left(stamps, wanted) - bisect_left(stamps, self._at)
            if ahead <= bisect_left(stamps, wanted) - bisect_left(stamps, key) + SEEK_COST:
                yield None
        place = bisect_left(keys, key)
        for back in sorted({place, max(place - 1, 0), max(place - 2, 0), 0}, reverse=True):
            yield keys[back]

    def _seek(self, key: int | None) -> None:
        """Move the decoder to a key; None: leave it where it is."""
        if key is None:
            return
        if key == self.index.keys[0]:  # in some formats a seek to the beginning fails
            self._container.close()
            self._container = open_file(self.path)
            self._stream = stream_of(self._container)
        else:
            self._container.seek(key, stream=self._stream, backward=True)
        self._frames = iter(self._container.decode(self._stream))
        self._at = -1 if self.index.counted else None

    def _frames_until(self, wanted: int) -> Iterator[tuple[int | None, "VideoFrame"]]:
        """Yield (stamp, frame) from here on to the wanted stamp, or the first after it."""
        for frame in self._frames:
            stamp = self._stamp(frame)
            self._at = stamp
            yield stamp, frame
            if stamp is not None and stamp >= wanted:
                return
        self._at = None

    def _stamp(self, frame: "VideoFrame") -> int | None:
        """Return a frame's stamp, by counting if the file's are useless; None: not known."""
        if not self.index.counted:
            return frame.pts
        return None if self._at is None else self._at + 1

    def _image(self, frame: "VideoFrame", number: int) -> Frame:
        """Return a decoded frame as RGB, rotated as the file says; MediaError if it is damaged."""
        if frame.is_corrupt:
            raise MediaError(
                f"video {self.path}, frame {number}",
                expected="a whole frame",
                found="a damaged one",
                fix=FIX,
            )
        image = frame.to_ndarray(format="rgb24")
        turns = round(frame.rotation / 90) % 4  # counter-clockwise, as the file says
        return np.ascontiguousarray(np.rot90(image, turns))


class Decoders:
    """Decoders of the files that were read last; safe to use from several threads."""

    def __init__(self, max_open: int) -> None:
        self.max_open = max_open
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[object, ...], Decoder] = OrderedDict()
        self._of_parent: list[object] = []
        """Open files of the parent process, referenced so that they are never closed here."""

    def decoder_of(self, path: Path) -> Decoder:
        """Return the decoder of a file; if too many are open, drop the one used longest ago."""
        with self._lock:
            with faults(path):
                name = (path, *status_marks(path.stat()))
                decoder = self._open.pop(name, None) or Decoder(path)
            self._open[name] = decoder
            while len(self._open) > self.max_open:
                self._open.popitem(last=False)  # its file closes when nobody decodes from it
            return decoder

    def clear(self) -> None:
        """Forget every open file."""
        with self._lock:
            self._open.clear()

    def begin_anew(self) -> None:
        """Drop the parent's open files and threads, in a process that was forked."""
        self._of_parent.append(self._open)  # to close them would wait for the parent's threads
        self._open, self._lock = OrderedDict(), threading.Lock()


DECODERS = Decoders(MAX_OPEN)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=DECODERS.begin_anew)

"""Frames at random from a video file: seek to a key, decode up to the frame."""

import os
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from harness.errors import MediaError
from harness.media import Frame
from harness.video.index import FIX, Index, faults, index_of, open_file, stream_of

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

SEEK_COST = 8  # frames that could be decoded in the time of a seek
MAX_OPEN = 12
"""Maximum number of open files, so that the next frame of each needs no seek: one for every thread
that decodes at once. With fewer, each frame would decode its file from the beginning."""
Passed: TypeAlias = Callable[[int, Frame], None]
"""Callback for frames that were decoded on the way, with their numbers."""


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
        """The stamp of the frame that was decoded last."""
        self._asked = -1

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._container.close()

    def frame(self, number: int, *, passed: Passed, room: int) -> Frame:
        """Decode one frame.

        Args:
            number: Which, in the order in which they are shown.
            passed: Callback for frames that were decoded on the way. It serves a video that is read
                backwards, whose next request is likely for the frame before.
            room: How many of them at most.

        Raises:
            MediaError: the file is damaged there.
        """
        with self._lock, faults(self.path):
            backwards = number == self._asked - 1
            self._asked = number
            keep = range(max(0, number - room), number) if backwards else range(0)
            return self._decode_frame(number, keep, passed)

    def _decode_frame(self, number: int, keep: range, passed: Passed) -> Frame:
        stamps = self.index.stamps
        wanted, kept = stamps[number], {stamps[k]: k for k in keep}
        for key in self._seek_points(wanted):
            self._enter(key)
            for stamp, frame in self._frames_until(wanted):
                if stamp == wanted:
                    return self._image(frame, number)
                if stamp in kept:
                    passed(kept[stamp], self._image(frame, kept[stamp]))
        raise MediaError(
            f"video {self.path}, frame {number}",
            fix=FIX,
            expected=f"it at {(wanted - self.index.start) * self.index.unit:.3f} s",
            found="none when it is decoded",
        )

    def _seek_points(self, wanted: int) -> Iterator[int | None]:
        """Yield start points: the present place (None) if the frame is ahead, else keys.

        Earlier keys follow, for where decoding began behind the frame.
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

    def _enter(self, key: int | None) -> None:
        if key is None:
            return
        if key == self.index.keys[0]:  # some formats cannot be sought to their beginning
            self._container.close()
            self._container = open_file(self.path)
            self._stream = stream_of(self._container)
        else:
            self._container.seek(key, stream=self._stream, backward=True)
        self._frames = iter(self._container.decode(self._stream))
        self._at = -1 if self.index.counted else None

    def _frames_until(self, wanted: int) -> Iterator[tuple[int | None, "VideoFrame"]]:
        """The frames from here to the one that is wanted, or the first behind it."""
        for frame in self._frames:
            stamp = self._stamp(frame)
            self._at = stamp
            yield stamp, frame
            if stamp is not None and stamp >= wanted:
                return
        self._at = None

    def _stamp(self, frame: "VideoFrame") -> int | None:
        if not self.index.counted:
            return frame.pts
        return None if self._at is None else self._at + 1

    def _image(self, frame: "VideoFrame", number: int) -> Frame:
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
    """The files that were read last, open; safe to use from several threads."""

    def __init__(self, max_open: int) -> None:
        self.max_open = max_open
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[Path, int], Decoder] = OrderedDict()
        self._of_parent: list[object] = []

    def decoder_of(self, path: Path) -> Decoder:
        """The decoder of a file; the one that was used longest ago is given up for it."""
        with self._lock:
            with faults(path):
                name = (path, path.stat().st_mtime_ns)
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
        self._of_parent.append(self._open)  # not closed: that would wait for threads
        self._open, self._lock = OrderedDict(), threading.Lock()


DECODERS = Decoders(MAX_OPEN)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=DECODERS.begin_anew)

"""Loaders, which decode one frame each, and `CACHE`, which keeps the frames decoded last.

A `harness.media.Media` holds a loader for each of its frames and decodes through the cache, which
all readers of this process share. Frames are height × width × 3, uint8, RGB.
"""

import io
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.errors import MediaError
from harness.files import open_regular, status_marks
from harness.image_file import Frame, decode_image


class Loader(Protocol):
    """Decodes one frame; frames with equal keys are equal (None: not worth keeping)."""

    @property
    def key(self) -> str | None:
        """Key of the frame in the cache."""

    def __call__(self) -> Frame:
        """Decode the frame."""


def file_key(path: Path, number: int) -> str | None:
    """Return the cache's key for frame `number` of a file; None: the file does not exist.

    A file that was written again under the same path has other keys.
    """
    try:
        return f"{number}:{status_marks(path.stat())}:{path}"
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class FileLoader:
    """Decodes an image file."""

    path: Path

    @property
    def key(self) -> str | None:
        """Key of the frame in the cache; another one once the file has changed."""
        return file_key(self.path, 0)

    def __call__(self) -> Frame:
        """Decode the file."""
        return decode_image(self.path, str(self.path))

    def encoded(self) -> bytes:
        """Return the file's bytes; none if it cannot be read: `decode_image` reports that."""
        try:
            with open_regular(self.path) as file:
                return file.read()
        except OSError:
            return b""


class _NotKept:
    """A loader whose frame is not worth keeping in the cache."""

    __slots__ = ()
    key = None


@dataclass(frozen=True, slots=True)
class BytesLoader(_NotKept):
    """Decodes an image in memory; `name` is for messages."""

    data: bytes
    name: str

    def __call__(self) -> Frame:
        """Decode the bytes."""
        return decode_image(io.BytesIO(self.data), self.name)

    def encoded(self) -> bytes:
        """Return the file's bytes."""
        return self.data


@dataclass(frozen=True, slots=True, eq=False)
class HeldFrame(_NotKept):
    """A frame that is decoded already."""

    frame: Frame

    def __call__(self) -> Frame:
        """Return the frame."""
        return self.frame


@dataclass(frozen=True, slots=True)
class LostFrame(_NotKept):
    """A frame that cannot be read, for the reason `fault`."""

    fault: str

    def __call__(self) -> Frame:
        """Raise MediaError."""
        raise MediaError(self.fault)


class FrameCache:
    """The frames decoded last, up to a number of bytes; safe to use from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._bytes = 0
        self._frames: OrderedDict[str, Frame] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def limited(self, max_bytes: int) -> Iterator[None]:
        """Lower the limit in the block, for a caller that reads a frame only twice in a row."""
        before, self.max_bytes = self.max_bytes, min(max_bytes, self.max_bytes)
        try:
            yield
        finally:
            self.max_bytes = before

    def get(self, loader: Loader) -> Frame:
        """Return the loader's frame, decoding it if it is not held."""
        key = loader.key
        if key is None:
            return loader()
        with self._lock:
            if key in self._frames:
                self._frames.move_to_end(key)
                return self._frames[key]
        frame = loader()
        frame.flags.writeable = False
        with self._lock:
            if key not in self._frames:
                self._frames[key] = frame
                self._bytes += frame.nbytes
            while self._bytes > self.max_bytes and len(self._frames) > 1:
                _, dropped = self._frames.popitem(last=False)
                self._bytes -= dropped.nbytes
        return frame

    def clear(self) -> None:
        """Forget every frame."""
        with self._lock:
            self._frames.clear()
            self._bytes = 0


CACHE = FrameCache(max_bytes=512 * 2**20)

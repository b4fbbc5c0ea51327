"""The frames decoded last, in one bounded cache that all readers of media share."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from harness.image_file import Frame


class Loader(Protocol):
    """Decodes one frame; frames with equal keys are equal (None: not worth keeping)."""

    @property
    def key(self) -> str | None:
        """Names the frame in the cache."""

    def __call__(self) -> Frame:
        """Decode the frame."""


class FrameCache:
    """The frames decoded last, up to a number of bytes; safe to use from several threads."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._bytes = 0
        self._frames: OrderedDict[str, Frame] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def limited(self, max_bytes: int) -> Iterator[None]:
        """Hold fewer bytes for a while, where each frame is read once or twice in a row."""
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

    @property
    def held_bytes(self) -> int:
        """Bytes of pixels that are held now."""
        return self._bytes


CACHE = FrameCache(max_bytes=512 * 2**20)

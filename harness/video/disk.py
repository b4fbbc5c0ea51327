"""Decoded frames on disk, by content: for runs that read the same frames again and again.

Off unless `HARNESS_FRAME_CACHE` names a folder. `HARNESS_FRAME_CACHE_GB` bounds it (20 if not
given). Any number of processes may share the folder: a frame is written beside its place and then
renamed, and a file that is cut or foreign counts as none.
"""

import os
import secrets
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.errors import UsageError
from harness.files import open_regular
from harness.media import Frame
from harness.video.index import library

FOLDER, GIGABYTES = "HARNESS_FRAME_CACHE", "HARNESS_FRAME_CACHE_GB"
DEFAULT_GIGABYTES = 20.0
LOOKS = 64  # frames that one process writes between two looks at how much there is
KEPT = 0.9  # of the bound, when frames are removed


class DiskCache:
    """A folder of decoded frames, of at most `max_bytes` (a little more between two looks)."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        # Another FFmpeg may decode to other pixels.
        self.folder = folder / f"av-{library().__version__}"
        self.max_bytes = max_bytes
        self._written = 0

    def get(self, name: str) -> Frame | None:
        """The frame, if it is there and whole."""
        path = self._path(name)
        try:
            with open_regular(path) as file:
                frame = np.load(file, allow_pickle=False)
            os.utime(path)  # it was used: others are removed before it
        except (OSError, ValueError, EOFError):
            return None
        fits = frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3
        return frame if fits else None

    def store(self, name: str, frame: Frame) -> None:
        """Keep a frame. A disk that is full or read-only is not an error: it is a cache."""
        path = self._path(name)
        part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                np.save(file, frame, allow_pickle=False)
            part.replace(path)
        except OSError:
            with suppress(OSError):
                part.unlink()
            return
        if self._written % LOOKS == 0:
            self._bound()
        self._written += 1

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.npy"

    def _bound(self) -> None:
        """Remove the frames that were used longest ago, if there is too much."""
        frames = []
        for path in self.folder.glob("*/*"):
            with suppress(OSError):  # another process has removed it
                status = path.stat()
                frames.append((status.st_mtime_ns, status.st_size, path))
        held = sum(size for _, size, _ in frames)
        if held <= self.max_bytes:
            return
        for _, size, path in sorted(frames):
            if held <= KEPT * self.max_bytes:
                return
            with suppress(OSError):
                path.unlink()
            held -= size


def disk_cache() -> DiskCache | None:
    """Return the cache that the environment configures; None without one."""
    folder = os.environ.get(FOLDER)
    return _cache(folder, os.environ.get(GIGABYTES, "")) if folder else None


@lru_cache(maxsize=4)
def _cache(folder: str, gigabytes: str) -> DiskCache:
    try:
        bound = float(gigabytes) if gigabytes else DEFAULT_GIGABYTES
    except ValueError:
        bound = -1.0
    if not 0 < bound < 1e9:
        raise UsageError(GIGABYTES, expected="a number above 0", found=repr(gigabytes))
    return DiskCache(Path(folder), int(bound * 1e9))

"""An optional cache of decoded frames on disk, for runs that read the same frames repeatedly.

It is used if `HARNESS_FRAME_CACHE` names a folder; `HARNESS_FRAME_CACHE_GB` bounds it (20 if not
given). Frames are named by the hash of the video and their number. Any number of processes may
share the folder: a frame is written to a temporary file and renamed, and a damaged file counts as
absent. `harness.video.media` reads and writes it.
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

FOLDER_VARIABLE, GIGABYTES_VARIABLE = "HARNESS_FRAME_CACHE", "HARNESS_FRAME_CACHE_GB"
DEFAULT_GIGABYTES = 20.0
CHECK_EVERY = 64  # frames that a process writes between two checks of the folder's size
KEPT_SHARE = 0.9  # of the bound: frames are removed until so much is left


class DiskCache:
    """A folder of decoded frames, of at most `max_bytes` (a little more between two checks)."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        # Another FFmpeg may decode to other pixels.
        self.folder = folder / f"av-{library().__version__}"
        self.max_bytes = max_bytes
        self._written = 0

    def get(self, name: str) -> Frame | None:
        """Return the frame of a name; None if it is absent or damaged."""
        path = self._path(name)
        try:
            with open_regular(path) as file:
                frame = np.load(file, allow_pickle=False)
            os.utime(path)  # frames that were used longer ago are removed first
        except (OSError, ValueError, EOFError):
            return None
        is_frame = frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3
        return frame if is_frame else None

    def store(self, name: str, frame: Frame) -> None:
        """Keep a frame. If the disk is full or read-only, nothing happens: it is a cache."""
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
        if self._written % CHECK_EVERY == 0:
            self._remove_oldest()
        self._written += 1

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.npy"

    def _remove_oldest(self) -> None:
        """Remove the frames that were used longest ago, if all take more than `max_bytes`."""
        frames = []
        for path in self.folder.glob("*/*"):
            with suppress(OSError):  # another process has removed it
                status = path.stat()
                frames.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in frames)
        if total <= self.max_bytes:
            return
        for _, size, path in sorted(frames):
            if total <= KEPT_SHARE * self.max_bytes:
                return
            with suppress(OSError):
                path.unlink()
            total -= size


def disk_cache() -> DiskCache | None:
    """Return the cache that the environment configures; None without `HARNESS_FRAME_CACHE`.

    Raises:
        UsageError: `HARNESS_FRAME_CACHE_GB` is not a number above 0.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    return _cache(folder, os.environ.get(GIGABYTES_VARIABLE, "")) if folder else None


@lru_cache(maxsize=4)
def _cache(folder: str, gigabytes: str) -> DiskCache:
    try:
        bound = float(gigabytes) if gigabytes else DEFAULT_GIGABYTES
    except ValueError:
        bound = -1.0
    if not 0 < bound < 1e9:
        raise UsageError(GIGABYTES_VARIABLE, expected="a number above 0", found=repr(gigabytes))
    return DiskCache(Path(folder), int(bound * 1e9))

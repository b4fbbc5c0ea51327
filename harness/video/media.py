"""A video file as `Media`: tasks open it by `video_file`, and its frames are decoded when read.

A decoded frame is kept in the cache of this process (`frame_cache`) and, if configured, on disk.
"""

import hashlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from harness.errors import MediaError
from harness.files import content_hash, status_marks
from harness.frame_cache import CACHE, file_key
from harness.media import Frame, Media, placeholder_media
from harness.video.decoder import DECODERS
from harness.video.disk import disk_cache
from harness.video.index import Index, index_of

Choose: TypeAlias = Callable[[Sequence[float]], Sequence[int]]
"""Numbers of frames, by the times of all."""
PASSED_SHARE = 4  # frames decoded on the way to another one take at most a fourth of the cache


def video_file(path: Path, *, choose: Choose | None = None) -> Media:
    """Open a video file (MP4, WebM, Matroska, AVI, MPEG, …); only its tables are read now.

    Frame k is the k-th that is shown, whatever the rate; `times` are seconds from the start of the
    file. Frames are rotated as the file says; colours are converted by FFmpeg's default rule.

    Args:
        path: The file.
        choose: Chooses the frames of the medium by the times of all (see `harness.frames`); None:
            all frames.

    Raises:
        MediaError: the file is missing, cut, not a video, without a frame, or too large.
    """
    index = index_of(path)
    return VideoFile(path, index, None if choose is None else array("q", choose(index.times())))


def video_or_lost(
    path: Path, *, choose: Choose | None = None, size: tuple[int, int] = (1, 1), frames: int = 1
) -> Media:
    """Open a video file; return `media.placeholder_media` if it is missing or damaged.

    `size` (width, height) and `frames` are those of the placeholder.
    """
    try:
        return video_file(path, choose=choose)
    except MediaError as error:
        return placeholder_media(error, size=size, frames=frames)


class VideoFile(Media):
    """The frames of a video file; made by `video_file`."""

    __slots__ = ("_index", "_path", "_shown")

    def __init__(self, path: Path, index: Index, shown: "array[int] | None") -> None:
        first = shown[0] if shown else 0
        super().__init__(
            [_Loader(path, first)],
            size=index.size,
            times=(),
            digest=_Digest(path, shown),
            is_video=True,
            conversions=index.conversions,
        )
        self._path = path
        self._index = index
        self._shown = shown

    def __len__(self) -> int:
        return len(self._index.stamps if self._shown is None else self._shown)

    def times(self) -> tuple[float, ...]:
        """Seconds from the start of the file at which each frame is shown."""
        times = self._index.times()
        return times if self._shown is None else tuple(times[number] for number in self._shown)

    def _loader(self, index: int) -> "_Loader":
        return _Loader(self._path, index if self._shown is None else self._shown[index])

    def __reduce__(self) -> tuple[Callable[..., Media], tuple[object, ...]]:
        return _reopen, (self._path, self._shown, self._size, len(self))


def _reopen(path: Path, shown: "array[int] | None", size: tuple[int, int], frames: int) -> Media:
    """Open the same video in another process; return a placeholder if it is gone."""
    choose = None if shown is None else lambda times: shown
    return video_or_lost(path, choose=choose, size=size, frames=frames)


@dataclass(frozen=True, slots=True)
class _Loader:
    """Decodes one frame of a video, by its number in the whole file."""

    _path: Path
    _number: int

    @property
    def key(self) -> str | None:
        return file_key(self._path, self._number)

    def __call__(self) -> Frame:
        disk = disk_cache()
        if disk is None:
            return self._decode()
        name = f"{_Digest(self._path, None)()}-{self._number}"
        frame = disk.get(name)
        if frame is None:
            frame = self._decode()
            disk.store(name, frame)
        return frame

    def _decode(self) -> Frame:
        decoder = DECODERS.decoder_of(self._path)
        width, height = decoder.index.size
        room = CACHE.max_bytes // PASSED_SHARE // (3 * width * height)
        return decoder.frame(self._number, passed=self._keep, room=room)

    def _keep(self, number: int, frame: Frame) -> None:
        CACHE.get(_Decoded(file_key(self._path, number), frame))


@dataclass(frozen=True, slots=True, eq=False)
class _Decoded:
    """A frame that was decoded already, on its way into the cache."""

    key: str | None
    frame: Frame

    def __call__(self) -> Frame:
        return self.frame


@dataclass(frozen=True, slots=True)
class _Digest:
    """Id of a video: the file's hash, and the numbers of the chosen frames if not all are."""

    _path: Path
    _shown: "array[int] | None"

    def __call__(self) -> str:
        whole = _hash(self._path, *status_marks(self._path.stat()))
        if self._shown is None:
            return whole
        named = f"{whole} {self._shown.tolist()}"
        return hashlib.blake2b(named.encode(), digest_size=16).hexdigest()

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self._path,)

    def weight(self) -> int:
        return self._path.stat().st_size


@lru_cache(maxsize=4096)
def _hash(path: Path, *marks: int) -> str:
    """Return a hash of a file's content; `marks` (size, times of change) are for the cache."""
    return hashlib.blake2b(content_hash(path), digest_size=16).hexdigest()

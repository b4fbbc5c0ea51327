"""Images and videos as opaque handles: the part of a benchmark's files that a model may see.

A handle gives pixels, times and a content id. It does not reveal the file's path, because beside
ReasonSeg's `x.jpg` lies its answer `x.json`. Decoding follows one rule everywhere (see
`image_file`), happens once, and is kept in one bounded cache that all readers share.
"""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from harness.errors import MediaError
from harness.files import content_hash
from harness.frame_cache import CACHE, BytesLoader, FileLoader, HeldFrame, Loader, LostFrame
from harness.image_file import Frame as Frame
from harness.image_file import read_header
from harness.plain_image import PlainImage, plain_image


class Digest(Protocol):
    """Identifies the content of a medium without decoding it."""

    def __call__(self) -> str:
        """A hash of the content."""

    def weight(self) -> int:
        """Bytes of the encoded files."""


class Media:
    """One image, or the frames of one video in order.

    Made by `image`, `frame_files`, `image_bytes`, `pixels` and `placeholder_media`; a task never
    builds one by hand.
    """

    __slots__ = (
        "__weakref__",
        "_digest",
        "_id",
        "_load",
        "_size",
        "_times",
        "conversions",
        "is_video",
    )

    def __init__(
        self,
        loaders: Sequence["Loader"],
        *,
        size: tuple[int, int],
        times: Sequence[float],
        digest: "Digest",
        is_video: bool,
        conversions: Sequence[str] = (),
    ) -> None:
        self._load = tuple(loaders)
        self._size = size
        self._times = tuple(times)
        self._digest = digest
        self._id: str | None = None
        self.is_video = is_video
        self.conversions = tuple(conversions)
        """Losses when the first frame is shown, in words."""

    def __len__(self) -> int:
        return len(self._load)

    def __repr__(self) -> str:
        medium_type = "video" if self.is_video else "image"
        frames = f", {len(self)} frames" if self.is_video else ""
        return f"<{medium_type} of {self.size[0]} × {self.size[1]} pixels{frames}>"

    @property
    def id(self) -> str:
        """Hash of the content: equal files have equal ids, whatever their path."""
        if self._id is None:
            self._id = self._digest()
        return self._id

    @property
    def weight(self) -> int:
        """Number of bytes of its encoded files; unequal media nearly always differ in it."""
        return self._digest.weight()

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels, as the first frame will be decoded."""
        return self._size

    @property
    def fault(self) -> str | None:
        """Reason why the image or video cannot be read at all, if known; see
        `placeholder_media`.
        """
        return getattr(self._load[0], "fault", None)

    def times(self) -> tuple[float, ...]:
        """Seconds from the start, one for each frame; frame indices if no frame rate is known."""
        return self._times

    def frame(self, index: int) -> Frame:
        """Decode one frame (or take it from the cache). The array must not be written to."""
        if not 0 <= index < len(self):
            raise MediaError(
                f"frame {index}",
                expected=f"0 to {len(self) - 1}",
                found="a frame that the video does not have",
            )
        frame = CACHE.get(self._loader(index))
        if (frame.shape[1], frame.shape[0]) != self._size:
            raise MediaError(
                f"frame {index} of a video",
                expected=f"{self._size[0]} × {self._size[1]} pixels",
                found=f"{frame.shape[1]} × {frame.shape[0]}",
            )
        return frame

    def plain_file(self, index: int) -> PlainImage | None:
        """Return the encoded file of one frame, without metadata, for servers that take files.

        None where decoding the file would not give the pixels of `frame` (`decode_image` turns or
        paints some images), and where the frame is held in memory or in a video's file.
        """
        data = self._encoded(index)
        image = None if data is None else plain_image(data)
        return image if image is not None and image.size == self._size else None

    def _encoded(self, index: int) -> bytes | None:
        """Return the encoded file of one frame; None: it is in memory or in a video's file."""
        loader = self._loader(index)
        return loader.encoded() if isinstance(loader, FileLoader | BytesLoader) else None

    def _loader(self, index: int) -> "Loader":
        return self._load[index]

    def frames(self, indices: Sequence[int] | None = None) -> list[Frame]:
        """Decode these frames, or all of them."""
        chosen = range(len(self)) if indices is None else indices
        return [self.frame(index) for index in chosen]

    def part(self, start: int, stop: int) -> "Media":
        """Return the video of the frames from `start` to before `stop`, with their times."""
        part = select_frames(self, range(*slice(start, stop).indices(len(self))))
        part.is_video = self.is_video
        return part

    def __reduce__(self) -> tuple[object, ...]:
        rebuild = partial(
            Media,
            size=self._size,
            times=self._times,
            digest=self._digest,
            is_video=self.is_video,
            conversions=self.conversions,
        )
        return rebuild, (self._load,)


def encoded_frame(media: Media, index: int) -> bytes | None:
    """Return the encoded file of one frame; None: it is in memory or in a video's file."""
    return media._encoded(index)


def media_to_json(media: Media) -> dict[str, object]:
    """Return plain data from which `media_from_json` rebuilds the medium without reading files.

    It names the files: never give it to a model.

    Raises:
        ValueError: the medium is not an image file, or a folder of frames.
    """
    if not isinstance(media._digest, _FilesDigest):
        raise ValueError("expected image files, found another medium")
    return {
        "files": [str(path.absolute()) for path in media._digest.paths],
        "size": list(media.size),
        **({"times": list(media.times())} if media.is_video else {}),
        **({"conversions": list(media.conversions)} if media.conversions else {}),
    }


def media_from_json(plain: Mapping[str, Any]) -> Media:
    """Return the medium that `media_to_json` described."""
    paths = tuple(map(Path, plain["files"]))
    return Media(
        list(map(FileLoader, paths)),
        size=tuple(plain["size"]),
        times=plain.get("times", (0.0,)),
        digest=_FilesDigest(paths),
        is_video="times" in plain,
        conversions=plain.get("conversions", ()),
    )


def file_stem(media: Media) -> str:
    """Return the name of an image's file without its suffix; "" for a video and bytes.

    It is for readers of predictions, and is not a part of the handle: models are not to see it.
    """
    loader = None if media.is_video else media._loader(0)
    return loader.path.stem if isinstance(loader, FileLoader) else ""


def open_image(path: Path) -> Media:
    """Open an image file; only its header is read now."""
    header = read_header(path, str(path))
    return Media(
        [FileLoader(path)],
        size=header.size,
        times=(0.0,),
        digest=_FilesDigest((path,)),
        is_video=False,
        conversions=header.conversions,
    )


def frame_files(paths: Sequence[Path], *, frames_per_second: float | None = None) -> Media:
    """Return a video stored as one image a frame, in order. Reads only the first header now."""
    if not paths:
        raise MediaError("video", expected="at least one frame", found="none")
    rate, header = frames_per_second or 1.0, read_header(paths[0], str(paths[0]))
    return Media(
        [FileLoader(path) for path in paths],
        size=header.size,
        times=[index / rate for index in range(len(paths))],
        digest=_FilesDigest(tuple(paths)),
        is_video=True,
        conversions=header.conversions,
    )


def image_bytes(data: bytes, name: str) -> Media:
    """Return an image held in memory as an encoded file; `name` is for error messages only."""
    header = read_header(io.BytesIO(data), name)
    return Media(
        [BytesLoader(data, name)],
        size=header.size,
        times=(0.0,),
        digest=_BytesDigest(data),
        is_video=False,
        conversions=header.conversions,
    )


def select_frames(video: Media, indices: Sequence[int]) -> Media:
    """Return the video of the frames with these numbers, with their times."""
    times = video.times()
    return Media(
        [video._loader(index) for index in indices],
        size=video.size,
        times=[times[index] for index in indices],
        digest=_SelectionDigest(video, tuple(indices)),
        is_video=True,
        conversions=video.conversions,
    )


def image_or_placeholder(
    image: bytes | Path, name: str = "", *, size: tuple[int, int] = (1, 1)
) -> Media:
    """Open an image file or an encoded image; return a placeholder if it is missing or damaged."""
    try:
        return open_image(image) if isinstance(image, Path) else image_bytes(image, name)
    except MediaError as error:
        return placeholder_media(error, size=size)


def pixels(frames: Sequence[Frame], *, times: Sequence[float], is_video: bool, id: str) -> Media:
    """Return an image or video of decoded frames, as an isolated process receives them."""
    if not frames:
        raise MediaError("video", expected="at least one frame", found="none")
    size = (frames[0].shape[1], frames[0].shape[0])
    return Media(
        [HeldFrame(frame) for frame in frames],
        size=size,
        times=times,
        digest=_KnownDigest(id),
        is_video=is_video,
    )


def loaded_image(load: Loader, *, size: tuple[int, int], id: str) -> Media:
    """Return an image of (width, height) that `load` decodes whenever it is not in the cache."""
    return Media([load], size=size, times=(0.0,), digest=_KnownDigest(id), is_video=False)


def placeholder_media(error: MediaError, *, size: tuple[int, int], frames: int = 1) -> Media:
    """Return a stand-in for an image or a video whose file is missing or damaged.

    It raises `error` when it is decoded. `size` is the (width, height) in which ground truth and
    predictions are compared.
    """
    return Media(
        [LostFrame(str(error))] * frames,
        size=size,
        times=range(frames),
        digest=_KnownDigest(_hash(str(error).encode())),
        is_video=frames > 1,
    )


def files_of(media: Media) -> tuple[Path, ...]:
    """Return the files that a medium is read from, in order; none if it is held in memory.

    They are for the record of a run, which checks that they are the same. No model sees them.
    """
    paths: tuple[Path, ...] = getattr(media._digest, "paths", ())
    return paths


@dataclass(frozen=True, slots=True)
class _FilesDigest:
    """Computes an id from the content of files; `weight` is their size in bytes."""

    paths: tuple[Path, ...]

    def __call__(self) -> str:
        return _hash(b"".join(map(content_hash, self.paths)))

    def weight(self) -> int:
        return sum(path.stat().st_size for path in self.paths)


@dataclass(frozen=True, slots=True)
class _BytesDigest:
    """Computes an id from bytes in memory."""

    data: bytes

    def __call__(self) -> str:
        return _hash(hashlib.blake2b(self.data, digest_size=16).digest())

    def weight(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class _SelectionDigest:
    """Computes an id from a video's id and the selected frames."""

    video: Media
    places: tuple[int, ...]

    def __call__(self) -> str:
        return _hash(f"{self.video.id} {self.places}".encode())

    def weight(self) -> int:
        return self.video.weight


@dataclass(frozen=True, slots=True)
class _KnownDigest:
    """Returns an id that is known already."""

    id: str

    def __call__(self) -> str:
        return self.id

    def weight(self) -> int:
        return 0


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()

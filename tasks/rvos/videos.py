"""List and open videos that are stored as one image per frame, for video segmentation tasks.

`VideoList` finds the files of a benchmark's videos, `film` opens them, and `faults_of` and others
check them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from harness.errors import DataError, MediaError
from harness.foreign import absence, refuse_foreign
from harness.image_file import header_size
from harness.layout import JsonFile, JsonIndex, field, path_inside
from harness.media import Media, frame_files, placeholder_media
from harness.task import Problem
from harness.types import AnswerForm, Query, Sample, query_id


@dataclass(frozen=True, slots=True)
class VideoList:
    """The videos of a split as listed in a file; entries are read one at a time."""

    root: Path
    """The folder that contains the folder `images`."""
    meta: Path
    """The JSON file; its `videos` have, for each video, an entry with the list `frames`."""
    videos: Mapping[str, Any]
    """The entries, by name of the video."""
    _: KW_ONLY
    images: str = "JPEGImages"
    """Folder below `root` with one folder of frames per video."""

    def where(self, name: str) -> str:
        """Return the name of a video's entry for messages."""
        return f"{self.meta}, video {name!r}"

    def frames(self, name: str, video: object) -> list[str]:
        """Return the names of a video's frames, in order."""
        where = self.where(name)
        return frame_names(field(video, "frames", list, where), where)

    def paths(self, name: str, video: object, below: str = "", suffix: str = ".jpg") -> list[Path]:
        """Return the files of a video's frames below the folder `below` (by default `images`)."""
        folder = path_inside(self.root / (below or self.images), name)
        return frame_paths(folder, self.frames(name, video), suffix=suffix)


def videos_of(meta: Path) -> JsonIndex:
    """Return the `videos` of a file, by name."""
    return JsonIndex(JsonFile(meta, ("videos",)))


def expression_sample(id: str, text: str, media: Media, **fields: Any) -> Sample:
    """Return the sample of an expression about a video; `fields` are further fields of `Sample`.

    White space is normalised as by the official readers. Unlike them, it keeps the letter case.
    """
    text, forms = " ".join(text.split()), (AnswerForm.MASK_TRACK,)
    query = Query(id=query_id(id), text=text, media=(media,), forms=forms)
    return Sample(id=id, query=query, **fields)


def frame_names(frames: object, where: str) -> list[str]:
    """Check and return the names of a video's frames, in order.

    Raises:
        DataError: `frames` is not a list of distinct names, or it is empty.
    """
    if not isinstance(frames, list) or not frames:
        actual = "none" if isinstance(frames, list) else repr(frames)[:60]
        raise DataError(f"{where}: 'frames'", expected="at least one frame", found=actual)
    if not all(isinstance(name, str) for name in frames):
        odd = next(name for name in frames if not isinstance(name, str))
        raise DataError(f"{where}: 'frames'", expected="names of frames", found=repr(odd)[:60])
    if len(set(frames)) != len(frames):
        twice = next(name for name in frames if frames.count(name) > 1)
        raise DataError(f"{where}: 'frames'", expected="each frame once", found=f"{twice!r} twice")
    return frames


def frame_paths(folder: Path, frames: Sequence[str], *, suffix: str = ".jpg") -> list[Path]:
    """Return the files of a video's frames; names that leave `folder` are refused."""
    return [path_inside(folder, f"{frame}{suffix}") for frame in frames]


def film(paths: Sequence[Path], *, size: Callable[[], tuple[int, int]]) -> Media:
    """Open the frames as a medium; return a placeholder if one of them is missing.

    Args:
        paths: One image per frame.
        size: Function that returns the placeholder's (width, height); called if no frame can be
            read.
    """
    try:
        refuse_missing(paths)
        return frame_files(paths)
    except MediaError as error:
        return placeholder_media(error, size=first_size(paths) or size(), frames=len(paths))


def refuse_missing(paths: Iterable[Path]) -> None:
    """Raise MediaError for the first missing image."""
    for path in paths:
        if not path.is_file():
            refuse_foreign(path, MediaError, f"image {path}", "a file")
            raise MediaError(f"image {path}", expected="a file", found="none")


def first_size(paths: Iterable[Path]) -> tuple[int, int] | None:
    """Return (width, height) of the first readable image; None if there is none."""
    for path in paths:
        with suppress(DataError):
            return header_size(path)
    return None


def first_size_of(paths: Iterable[Path]) -> tuple[int, int]:
    """Return (width, height) of the first readable image; (1, 1) if there is none."""
    return first_size(paths) or (1, 1)


def missing_files(paths: Iterable[Path]) -> Iterator[Problem]:
    """Yield a problem for each missing file."""
    yield from (Problem(str(path), absence(path)) for path in paths if not path.is_file())


def faults_of(images: Sequence[Path], labels: Iterable[Path] = ()) -> list[Problem]:
    """Return a problem for each missing file of a video, or else one if its frames are `uneven`."""
    missing = [*missing_files(images), *missing_files(labels)]
    if not missing and (problem := uneven(images)):
        return [problem]
    return missing


def uneven(paths: Sequence[Path]) -> Problem | None:
    """Return a problem if the frames differ in size, or else None."""
    sizes = {header_size(path) for path in paths}
    if len(sizes) > 1:
        return Problem(str(paths[0].parent), f"its frames have {len(sizes)} different sizes")
    return None

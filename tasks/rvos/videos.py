"""Videos stored as one image for each frame: paths from an annotation file, media from paths."""

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
    """The videos of a split as a file lists them, of which one entry is held at a time."""

    place: Path
    """The folder of the images' folders."""
    meta: Path
    """The file, whose `videos` have `frames`."""
    videos: Mapping[str, Any]
    """Its entries by the videos' names."""
    _: KW_ONLY
    images: str = "JPEGImages"
    """Folder of the videos' folders of frames, below `place`."""

    def where(self, name: str) -> str:
        """Return the place of a video, for messages."""
        return f"{self.meta}, video {name!r}"

    def frames(self, name: str, video: object) -> list[str]:
        """The names of a video's frames, in order."""
        where = self.where(name)
        return frame_names(field(video, "frames", list, where), where)

    def paths(self, name: str, video: object, kind: str = "", suffix: str = ".jpg") -> list[Path]:
        """The files of a video's frames, below the folder `kind`, by default `images`."""
        folder = path_inside(self.place / (kind or self.images), name)
        return frame_paths(folder, self.frames(name, video), suffix=suffix)


def videos_of(meta: Path) -> JsonIndex:
    """The `videos` of a file, by name."""
    return JsonIndex(JsonFile(meta, ("videos",)))


def expression_sample(id: str, text: str, media: Media, **others: Any) -> Sample:
    """The sample of an expression about a video; `others` are further fields of `Sample`.

    Blanks are as the official readers leave them; those lower the case as well.
    """
    text, forms = " ".join(text.split()), (AnswerForm.MASK_TRACK,)
    query = Query(id=query_id(id), text=text, media=(media,), forms=forms)
    return Sample(id=id, query=query, **others)


def frame_names(frames: object, where: str) -> list[str]:
    """The names of a video's frames, in order.

    Raises:
        DataError: it is not a list of different names, or it is empty.
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
    """The files of a video's frames, which may not leave its folder."""
    return [path_inside(folder, f"{frame}{suffix}") for frame in frames]


def film(paths: Sequence[Path], *, size: Callable[[], tuple[int, int]]) -> Media:
    """Open the frames as media, or a stand-in if one of them is missing.

    Args:
        paths: One image a frame.
        size: Gives (width, height) from elsewhere if no frame can be read.
    """
    try:
        refuse_missing(paths)
        return frame_files(paths)
    except MediaError as error:
        return placeholder_media(error, size=first_size(paths) or size(), frames=len(paths))


def refuse_missing(paths: Iterable[Path]) -> None:
    """Raise MediaError for the first image that is not there."""
    for path in paths:
        if not path.is_file():
            refuse_foreign(path, MediaError, f"image {path}", "a file")
            raise MediaError(f"image {path}", expected="a file", found="none")


def first_size(paths: Iterable[Path]) -> tuple[int, int] | None:
    """(width, height) of the first image that can be read; None if none can."""
    for path in paths:
        with suppress(DataError):
            return header_size(path)
    return None


def first_size_of(paths: Iterable[Path]) -> tuple[int, int]:
    """(width, height) of the first image that can be read; 1 × 1 if none can."""
    return first_size(paths) or (1, 1)


def missing_files(paths: Iterable[Path]) -> Iterator[Problem]:
    """A problem for each file that is not there."""
    yield from (Problem(str(path), absence(path)) for path in paths if not path.is_file())


def faults_of(images: Sequence[Path], labels: Iterable[Path] = ()) -> list[Problem]:
    """Files of a video that are not there, or else that its images differ in size."""
    gone = [*missing_files(images), *missing_files(labels)]
    if not gone and (problem := uneven(images)):
        return [problem]
    return gone


def uneven(paths: Sequence[Path]) -> Problem | None:
    """The problem of frames that differ in size, if they do."""
    sizes = {header_size(path) for path in paths}
    if len(sizes) > 1:
        return Problem(str(paths[0].parent), f"its frames have {len(sizes)} different sizes")
    return None

"""Source of a task's samples: one of several layouts of the same benchmark."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import DataError
from harness.layout import path_inside
from harness.media import Media, image_or_placeholder
from harness.task import Problem
from harness.tasks.refer.annotations import ImageInfo
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id


@dataclass(frozen=True, slots=True)
class Source:
    """A layout that was found: its files, and the functions that read and check them."""

    files: tuple[Path, ...]
    samples: Callable[[], Iterable[Sample]]
    check: Callable[[], Iterable[Problem]]
    check_samples: Callable[[Iterable[Sample]], Iterable[Problem]] | None = None


def media_of(image: ImageInfo, folder: Path) -> Media:
    """Return an image of an annotation file, or a stand-in if it cannot be read.

    Raises:
        DataError: its name leaves the folder, or it is not of the annotated size.
    """
    path, size = path_inside(folder, image.file_name), (image.width, image.height)
    media = image_or_placeholder(path, size=size)
    if media.size != size:
        raise DataError(
            f"image {path}",
            expected=f"{size[0]} × {size[1]} pixels, as annotated",
            found=f"{media.size[0]} × {media.size[1]}",
        )
    return media


def query_sample(
    id: str,
    text: str,
    media: Media,
    *,
    form: AnswerForm,
    answer: Answer,
    group: str,
    categories: Mapping[str, str] | None = None,
    extra: Mapping[str, object] | None = None,
) -> Sample:
    """One question about one image."""
    return Sample(
        id=id,
        query=Query(id=query_id(id), text=text, media=(media,), forms=(form,)),
        target=Target(answer=answer, extra=extra or {}),
        group=group,
        categories=categories or {},
    )


def problems(where: str, look: Callable[[], Sequence[Media]]) -> Iterable[Problem]:
    """Yield the faults of one entry: the error of `look`, or an image of it that is missing."""
    try:
        media = look()
    except DataError as error:
        yield Problem(where, str(error))
    else:
        yield from (Problem(where, one.fault) for one in media if one.fault)

"""`Source` of samples for RefCOCO's family: one interface to the layouts of the same benchmark.

`listing_source` is the source of refer's layout; `hub` has those of the copies.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import DataError
from harness.layout import path_inside
from harness.media import Media, image_or_placeholder
from harness.task import Problem
from harness.tasks.refer.annotations import ImageInfo
from harness.tasks.refer.referents import Listing, Referent
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id


@dataclass(frozen=True, slots=True)
class Source:
    """A benchmark's files in one layout, and the functions that read and check them."""

    files: tuple[Path, ...]
    samples: Callable[[], Iterable[Sample]]
    check: Callable[[], Iterable[Problem]]
    check_samples: Callable[[Iterable[Sample]], Iterable[Problem]] | None = None


def media_of(image: ImageInfo, folder: Path) -> Media:
    """Return the image of an annotation file's entry, or a placeholder if it cannot be read.

    Raises:
        DataError: the name leaves the folder, or the image does not have the annotated size.
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
    """Return the sample of one question about one image."""
    return Sample(
        id=id,
        query=Query(id=query_id(id), text=text, media=(media,), forms=(form,)),
        target=Target(answer=answer, extra=extra or {}),
        group=group,
        categories=categories or {},
    )


def listing_source(
    listing: Listing,
    split: str,
    read: Callable[[Referent], Iterable[Sample]],
    *,
    exact: bool = False,
) -> Source:
    """Return the source whose samples `read` makes from each referent of a split.

    For `exact`, see `Listing.referents_of`.
    """

    def samples() -> Iterator[Sample]:
        for referent in listing.referents_of(split, exact=exact):
            yield from read(referent)

    def check() -> Iterator[Problem]:
        """Yield the error of each referent, or the fault of its image."""
        try:
            listing.instances.walk()
            for referent in listing.referents_of(split, exact=exact):
                try:
                    faults = {sample.query.media[0].fault for sample in read(referent)}
                except DataError as error:
                    faults = {str(error)}
                yield from (Problem(referent.where, fault) for fault in faults if fault)
        except DataError as error:
            yield Problem(str(listing.path.parent), str(error))

    return Source((listing.path, listing.path.parent / "instances.json"), samples, check)

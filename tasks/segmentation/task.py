"""Make the task of a benchmark whose samples are a text about an image, and one mask.

The benchmark's own module reads its files into `Phrase`s, and calls `segmentation_task` with them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from harness.errors import DataError
from harness.image_file import decode_mask
from harness.masks import Rle
from harness.media import Media, image_or_placeholder
from harness.task import Problem, Protocol, Task, lost_media
from harness.tasks.qa.tables import check_each, sound
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """A text about an image, with the mask of its target."""

    id: str
    text: str
    image: Path | bytes
    """Path of the image file, or its content."""
    mask: Rle
    where: str
    """Position of the phrase in its file, for messages."""
    ignore: Rle | None = None
    """Pixels that do not count in the score."""
    group: str = ""
    """Cluster of dependent samples, for statistics; by default the image's content."""
    categories: Mapping[str, str] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    """Further texts that belong to the ground truth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """The phrases of a benchmark: its files, and the function that reads them."""

    files: Sequence[Path]
    """The annotation files, whose content decides phrases and masks."""
    read: Callable[[], Iterator[Phrase | DataError]]
    """Yields each phrase in order, or the error of one that cannot be read."""
    tolerance: float = 0.0
    """Largest relative difference between the aspect ratios of a mask and its image, if masks may
    have another size than images; 0: they must have the same size."""

    def samples(self) -> Iterator[Sample]:
        """Yield one sample a phrase.

        Raises:
            DataError: a phrase cannot be read, or its mask does not have its image's size.
        """
        return map(self._sample, sound(self.read()))

    def check(self) -> Iterator[Problem]:
        """Yield the faults of phrases and of the images' headers."""
        first_file = str(self.files[0])
        return check_each(self.read(), first_file, partial(self._problems, first_file))

    def _problems(self, first_file: str, phrase: Phrase) -> Iterator[Problem]:
        """Yield the fault of a phrase's image, and an error as a problem of `first_file`."""
        try:
            if fault := self._media(phrase).fault:
                where = phrase.where if isinstance(phrase.image, bytes) else str(phrase.image)
                yield Problem(where, fault)
        except DataError as error:
            yield Problem(first_file, str(error))

    def _sample(self, phrase: Phrase) -> Sample:
        """Return the sample of a phrase, with its image opened."""
        media = self._media(phrase)
        return Sample(
            id=phrase.id,
            query=Query(
                id=query_id(phrase.id), text=phrase.text, media=(media,), forms=(AnswerForm.MASK,)
            ),
            target=Target(
                answer=Answer(masks=(phrase.mask,)),
                ignore=None if phrase.ignore is None else (phrase.ignore,),
                references=phrase.references,
            ),
            group=phrase.group or media.id,
            categories=phrase.categories,
        )

    def _media(self, phrase: Phrase) -> Media:
        """Open the image, or a placeholder if it is missing or damaged; check the mask's size."""
        mask = phrase.mask
        media = image_or_placeholder(phrase.image, f"of {phrase.where}", size=mask.size)
        width, height = media.size
        # |mask.width / mask.height - width / height| > tolerance * (width / height), multiplied by
        # both heights, so that whole numbers are compared.
        other_shape = abs(mask.width * height - mask.height * width) > (
            self.tolerance * mask.height * width
        )
        if other_shape or (not self.tolerance and mask.size != media.size):
            compared = "the shape" if self.tolerance else "the size"
            raise DataError(
                f"{phrase.where}: mask",
                expected=f"{compared} of its image, {width} × {height}",
                found=f"{mask.width} × {mask.height}",
            )
        return media


def read_mask_image(path: Path) -> Rle:
    """Return the mask of the pixels that are not black in a mask image.

    Raises:
        MediaError: the file is missing or damaged, or not an 8-bit image without transparency.
    """
    # Equals a conversion to grey by OpenCV first, whose rounding turns no other colour black.
    return Rle.from_array(np.asarray(decode_mask(path, str(path)).any(axis=2)))


def segmentation_task(
    phrases: Phrases,
    name: str,
    *,
    protocol: Protocol,
    arguments: Mapping[str, object] | None = None,
    split: str = "test",
    version: int = 1,
) -> Task:
    """Return the task of a benchmark's phrases.

    Args:
        phrases: The phrases.
        name: Name of the task.
        protocol: Protocol that scores the masks.
        arguments: Arguments besides split and protocol, for the record.
        split: Name of the split.
        version: Raised when samples, question text or scoring change.
    """
    return Task(
        name=name,
        version=version,
        split=split,
        forms=(AnswerForm.MASK,),
        protocol=protocol,
        samples=phrases.samples,
        annotations=phrases.files,
        check=phrases.check,
        check_samples=lost_media,
        arguments={"split": split, "protocol": protocol.name, **(arguments or {})},
    )

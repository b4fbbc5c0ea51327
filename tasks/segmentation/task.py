"""Phrases with a mask each, turned into samples and checks; shared by benchmarks of image files."""

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
    """Target in an image, in words and as a mask."""

    id: str
    text: str
    image: Path | bytes
    """Its file, or the content of one."""
    mask: Rle
    where: str
    """Place of the phrase in its file, for messages."""
    ignore: Rle | None = None
    """Pixels that do not count."""
    group: str = ""
    """Group for the clusters of statistics; by default the image's content."""
    categories: Mapping[str, str] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    """Further texts that belong to the ground truth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """Functions and files for reading a benchmark's phrases."""

    files: Sequence[Path]
    """The files whose content decides phrases and masks."""
    read: Callable[[], Iterator[Phrase | DataError]]
    """Every phrase in order, or why it cannot be read; read as it is needed."""
    tolerance: float = 0.0
    """Share by which the ratio of a mask's sides may differ from its image's, where masks of
    another size are allowed; 0: only masks of the image's own size are."""

    def samples(self) -> Iterator[Sample]:
        """One sample a phrase.

        Raises:
            DataError: a phrase cannot be read, or its mask is not one of its image.
        """
        return map(self._sample, sound(self.read()))

    def check(self) -> Iterator[Problem]:
        """Everything that is wrong with the phrases and the images' headers."""
        listed = str(self.files[0])
        return check_each(self.read(), listed, partial(self._problems, listed))

    def _problems(self, listed: str, phrase: Phrase) -> Iterator[Problem]:
        try:
            if fault := self._media(phrase).fault:
                where = phrase.where if isinstance(phrase.image, bytes) else str(phrase.image)
                yield Problem(where, fault)
        except DataError as error:
            yield Problem(listed, str(error))

    def _sample(self, phrase: Phrase) -> Sample:
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
        """Open the image, or a stand-in if it is missing or damaged."""
        mask = phrase.mask
        media = image_or_placeholder(phrase.image, f"of {phrase.where}", size=mask.size)
        width, height = media.size
        apart = abs(mask.width * height - mask.height * width) > (
            self.tolerance * mask.height * width
        )
        if apart or (not self.tolerance and mask.size != media.size):
            wanted = "the shape" if self.tolerance else "the size"
            raise DataError(
                f"{phrase.where}: mask",
                expected=f"{wanted} of its image, {width} × {height}",
                found=f"{mask.width} × {mask.height}",
            )
        return media


def read_mask_image(path: Path) -> Rle:
    """The pixels of an image of a mask that are not black.

    Raises:
        MediaError: it is missing or damaged, or not an image of 8 bits without transparency.
    """
    # OpenCV's weights of grey (truncated at 0.5) make no colour black but black.
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
    """The task of a benchmark's phrases.

    Args:
        phrases: How they are read.
        name: The task's name.
        protocol: What scores them.
        arguments: Arguments besides the split and the protocol, for the record.
        split: The split's name.
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

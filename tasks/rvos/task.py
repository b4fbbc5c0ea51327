"""Expressions about videos to samples and checks, the same for every such benchmark."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import DataError
from harness.layout import JsonIndex
from harness.media import files_of
from harness.task import Problem, lost_media
from harness.tasks.qa.tables import sound
from harness.tasks.rvos.videos import VideoList, faults_of, uneven
from harness.types import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFormat:
    """Functions that read a benchmark's expressions about videos."""

    layout: VideoList
    """The videos, read as they are needed."""
    read: Callable[[str, object], Iterable[Sample | DataError]]
    """Function that reads a video's samples, or the errors that they have, by its name and
    entry."""
    indices: tuple[JsonIndex, ...] = ()
    """Further files, of which the first that is damaged is the only problem."""
    labels: Callable[[str, object], Iterable[Path]] = lambda name, video: ()
    """Function that returns the annotations of a video, which have to be there."""
    fault: Callable[[Sample], str | None] = lambda sample: None
    """Function that says what else is wrong with a sample."""

    def samples(self) -> Iterator[Sample]:
        """Yield the samples of every video.

        Raises:
            DataError: the first that cannot be read.
        """
        for name, video in self.layout.videos.items():
            yield from sound(self.read(name, video))

    def check(self) -> Iterator[Problem]:
        """Yield the problems of each video's files, or else those of its samples."""
        for index in self.indices:
            try:
                index.walk()
            except DataError as error:
                yield Problem(str(index.file.path), str(error))
                return
        try:
            for name, video in self.layout.videos.items():
                try:
                    yield from self._problems(name, video)
                except DataError as error:
                    yield self._problem(error)
        except DataError as error:
            yield self._problem(error)

    def _problems(self, name: str, video: object) -> Iterator[Problem]:
        if gone := faults_of(self.layout.paths(name, video), self.labels(name, video)):
            yield from gone
            return
        for sample in self.read(name, video):
            yield from (
                (self._problem(sample),) if isinstance(sample, DataError) else self._faults(sample)
            )

    def _problem(self, error: DataError) -> Problem:
        """Return an error as a problem of the further file that it names, else of the list."""
        paths = (str(index.file.path) for index in self.indices)
        named = (path for path in paths if f"{path}," in str(error))
        return Problem(next(named, str(self.layout.meta)), str(error))

    def _faults(self, sample: Sample) -> Iterator[Problem]:
        if message := self.fault(sample):
            yield Problem(f"sample {sample.id!r}", message)

    def check_samples(self, samples: Iterable[Sample]) -> Iterator[Problem]:
        """Name the samples whose video is lost or has frames of several sizes, or with a fault.

        Those of one video follow each other.
        """
        before: tuple[Path, ...] = ()
        for sample in samples:
            yield from lost_media((sample,))
            paths = files_of(sample.query.media[0])
            if paths and paths != before and (problem := uneven(paths)):
                yield problem
            before = paths
            yield from self._faults(sample)


def each(
    items: Iterable[tuple[str, object]], make: Callable[[str, object], Sample]
) -> Iterator[Sample | DataError]:
    """Yield the sample that `make` returns for each item, or the error that it has."""
    for name, item in items:
        try:
            yield make(name, item)
        except DataError as error:
            yield error


def unseen(sample: Sample) -> str | None:
    """Say so if no frame shows what is meant by a sample with public ground truth."""
    masks = () if sample.target is None else sample.target.answer.masks or ()
    shown = sample.target is None or any(mask.area for mask in masks)
    return None if shown else "no frame shows its object"

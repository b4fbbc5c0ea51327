"""Make tasks of referring video segmentation: samples and checks that these benchmarks share.

MeViS, Ref-YouTube-VOS, Ref-DAVIS17, ReVOS and others give a `VideoFormat` the functions that read
their files, and get the task from it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from harness.errors import DataError
from harness.layout import JsonIndex
from harness.media import files_of
from harness.task import Problem, Protocol, Task, lost_media
from harness.tasks.qa.tables import sound
from harness.tasks.rvos.videos import VideoList, faults_of, uneven
from harness.types import AnswerForm, Prediction, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFormat:
    """The files of a benchmark with expressions about videos, and the functions that read them."""

    layout: VideoList
    """The videos of the split."""
    read: Callable[[str, object], Iterable[Sample | DataError]]
    """Yields the samples of a video, or their errors, from the video's name and entry."""
    indices: tuple[JsonIndex, ...] = ()
    """Files besides the layout's. The check reports only the first of them that is damaged."""
    labels: Callable[[str, object], Iterable[Path]] = lambda name, video: ()
    """Returns the annotation files that a video must have."""
    fault: Callable[[Sample], str | None] = lambda sample: None
    """Returns a further problem of a sample, or None."""

    def task(
        self,
        name: str,
        protocol: Protocol,
        annotations: Sequence[Path],
        *,
        split: str,
        submission: Callable[[Iterable[tuple[Sample, Prediction]], Path], Path] | None = None,
        arguments: Mapping[str, object] = MappingProxyType({}),
    ) -> Task:
        """Return the task of the benchmark; `arguments` are those beside split and protocol."""
        return Task(
            name=name,
            split=split,
            forms=(AnswerForm.MASK_TRACK,),
            protocol=protocol,
            samples=self.samples,
            annotations=annotations,
            check=self.check,
            check_samples=self.check_samples,
            submission=submission,
            arguments={"split": split, "protocol": protocol.name, **arguments},
        )

    def samples(self) -> Iterator[Sample]:
        """Yield the samples of every video.

        Raises:
            DataError: a sample cannot be read.
        """
        for name, video in self.layout.videos.items():
            yield from sound(self.read(name, video))

    def check(self) -> Iterator[Problem]:
        """Yield the problems of each video's files or, if there are none, of its samples."""
        for index in self.indices:
            try:
                index.walk()
            except DataError as error:
                yield Problem(str(index.file.path), str(error))
                return
        try:
            for name, video in self.layout.videos.items():
                try:
                    yield from self._problems_of_video(name, video)
                except DataError as error:
                    yield self._problem(error)
        except DataError as error:
            yield self._problem(error)

    def _problems_of_video(self, name: str, video: object) -> Iterator[Problem]:
        """Yield a video's missing or damaged files or, if there are none, its samples' faults."""
        if missing := faults_of(self.layout.paths(name, video), self.labels(name, video)):
            yield from missing
            return
        for sample in self.read(name, video):
            yield from (
                (self._problem(sample),) if isinstance(sample, DataError) else self._faults(sample)
            )

    def _problem(self, error: DataError) -> Problem:
        """Return an error as a problem of the file of `indices` that it names, else of the list."""
        paths = (str(index.file.path) for index in self.indices)
        matches = (path for path in paths if f"{path}," in str(error))
        return Problem(next(matches, str(self.layout.meta)), str(error))

    def _faults(self, sample: Sample) -> Iterator[Problem]:
        """Yield the `fault` of a sample, if it has one, as a problem."""
        if message := self.fault(sample):
            yield Problem(f"sample {sample.id!r}", message)

    def check_samples(self, samples: Iterable[Sample]) -> Iterator[Problem]:
        """Yield problems of samples: missing media, frames of different sizes, and other faults.

        The samples of one video must follow each other.
        """
        previous_paths: tuple[Path, ...] = ()
        for sample in samples:
            yield from lost_media((sample,))
            paths = files_of(sample.query.media[0])
            if paths and paths != previous_paths and (problem := uneven(paths)):
                yield problem
            previous_paths = paths
            yield from self._faults(sample)


def each(
    items: Iterable[tuple[str, object]], make: Callable[[str, object], Sample]
) -> Iterator[Sample | DataError]:
    """Yield the sample that `make` returns for each item, or the error that it raises."""
    for name, item in items:
        try:
            yield make(name, item)
        except DataError as error:
            yield error


def unseen(sample: Sample) -> str | None:
    """Return a message if the ground truth of a sample is empty in all frames, or else None."""
    masks = () if sample.target is None else sample.target.answer.masks or ()
    is_shown = sample.target is None or any(mask.area for mask in masks)
    return None if is_shown else "no frame shows its object"

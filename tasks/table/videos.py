"""Task of expressions about videos in the layout of YouTube-VOS, for datasets of one's own.

`meta_expressions.json` is the table; below `media.folder` lie `JPEGImages/<video>/<frame>.jpg` and
`Annotations/<video>/<frame>.png`, whose pixels have the number of the object, an expression's
`obj_id`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.errors import DataError
from harness.layout import LazyFileList, field
from harness.layout.mask_image import VOID_VALUES
from harness.masks import Rle
from harness.task import Protocol, Task
from harness.tasks.rvos.labels import label_tracks
from harness.tasks.rvos.task import VideoFormat, each, unseen
from harness.tasks.rvos.videos import VideoList, expression_sample, film, first_size_of, videos_of
from harness.tasks.table.description import Description
from harness.types import Answer, AnswerForm, Sample, Target

ANNOTATIONS = "Annotations"


@dataclass(frozen=True)
class Expressions:
    """Reader of a table's videos in the layout of YouTube-VOS."""

    videos: VideoList

    def labels(self, name: str, video: object) -> list[Path]:
        """Return the annotation of each frame of a video."""
        return self.videos.paths(name, video, ANNOTATIONS, ".png")

    def files(self, table: Path, description: Path) -> Iterator[Path]:
        """Yield the files that decide samples and ground truth."""
        yield from (table, description)
        for name, video in self.videos.videos.items():
            yield from (path for path in self.labels(name, video) if path.is_file())

    def samples(self, name: str, video: object) -> Iterator[Sample | DataError]:
        """Yield the sample of each expression about a video, or its error."""
        labels, where = self.labels(name, video), self.videos.where(name)
        media = film(self.videos.paths(name, video), size=partial(first_size_of, labels))
        tracks = label_tracks(labels, size=media.size)
        frames = tuple(self.videos.frames(name, video))

        def sample(number: str, expression: object) -> Sample:
            place = f"{where}, expression {number!r}"
            masks = _masks(tracks, expression, place)
            return expression_sample(
                f"{name}/{number}",
                field(expression, "exp", str, place),
                media,
                target=Target(answer=Answer(masks=masks, instances=(masks,))),
                group=name,
                frames=frames,
            )

        yield from each(field(video, "expressions", dict, where).items(), sample)


def _masks(
    tracks: Mapping[int, tuple[Rle, ...]], expression: object, where: str
) -> tuple[Rle, ...]:
    """Return the masks of an expression's object, one per frame."""
    number = str(field(expression, "obj_id", (str, int), where))
    if number in map(str, VOID_VALUES) and min(tracks, default=0) not in VOID_VALUES:
        raise DataError(
            f"{where}: 'obj_id'",
            expected="the number of an object",
            found=f"{number}, which marks pixels to ignore beside smaller numbers",
        )
    if number not in map(str, tracks):
        raise DataError(
            f"{where}: 'obj_id'",
            expected=f"an object that the annotations show: {', '.join(map(str, tracks))}",
            found=repr(number)[:40],
        )
    return tracks[int(number)]


def expressions_task(
    description: Description,
    table: Path,
    protocol: Protocol,
    split: str,
    arguments: Mapping[str, object],
) -> Task:
    """Return the task of a table in the layout of YouTube-VOS; one sample an expression."""
    folder = table.parent / description.media.folder
    expressions = Expressions(VideoList(folder, table, videos_of(table)))
    reader = VideoFormat(
        layout=expressions.videos,
        read=expressions.samples,
        labels=expressions.labels,
        fault=unseen,
    )
    return Task(
        name=description.name,
        version=description.version,
        split=split,
        forms=(AnswerForm.MASK_TRACK,),
        protocol=protocol,
        samples=reader.samples,
        annotations=LazyFileList(partial(expressions.files, table, description.path)),
        check=reader.check,
        check_samples=reader.check_samples,
        arguments={"split": split, "protocol": protocol.name, **arguments},
    )

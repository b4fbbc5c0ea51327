"""Ref-DAVIS17 (Khoreva et al., 2018): the objects of DAVIS 2017, described by four annotators.

The files are those that ReferFormer's `convert_davis_to_ytvos.py` writes. Four consecutive
expressions are about one object, one by each annotator. The PNG of a frame,
`<split>/Annotations/<video>/<frame>.png`, has the object's number at each pixel, and 255 at pixels
that do not count:

    {"videos": {"blackswan": {"expressions": {"0": {"exp": "a black swan", "obj_id": "1"},
       "1": {"exp": "a swan swimming", "obj_id": "1"}, …}, "frames": ["00000", "00001"]}}}
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.layout import LazyFileList, field, file, folder
from harness.masks import Rle
from harness.media import Media
from harness.metrics.unsupervised import object_count
from harness.task import Task, choose
from harness.tasks.ref_davis17.scoring import FOUR, PROTOCOLS
from harness.tasks.rvos.labels import VOID, label_tracks, read_labels
from harness.tasks.rvos.png_tree import ANNOTATORS
from harness.tasks.rvos.task import VideoFormat, each, unseen
from harness.tasks.rvos.videos import VideoList, expression_sample, film, first_size_of, videos_of
from harness.types import Answer, Sample, Target

FIX = "`harness list tasks ref_davis17` prints the source of the data."


def ref_davis17(
    data: Path,
    *,
    split: Literal["train", "valid"] = "valid",
    protocol: str = "rvos/davis_unsup_4anno",
) -> Task:
    """One sample per expression, annotator by annotator.

    Args:
        protocol: `rvos/davis_unsup_4anno`, which scores a video's expressions of one annotator
            together, or `rvos/visa_davis`, which scores each by itself; see the card.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = data / "ref_davis17"
    split_folder = folder(root / split, fix=FIX)
    meta = folder(root / "meta_expressions" / split, fix=FIX) / "meta_expressions.json"
    layout = VideoList(split_folder, file(meta, fix=FIX), videos_of(meta))
    reader = VideoFormat(
        layout=layout,
        read=partial(_of_video, layout, protocol == FOUR),
        labels=partial(_labels, layout),
        fault=unseen,
    )
    return reader.task(
        "ref_davis17", scoring, LazyFileList(partial(_annotations, layout)), split=split
    )


def _annotations(layout: VideoList) -> Iterator[Path]:
    """Yield the files that decide samples and ground truth."""
    yield layout.meta
    for name, video in layout.videos.items():
        yield from (path for path in _labels(layout, name, video) if path.is_file())


def _labels(layout: VideoList, name: str, video: object) -> list[Path]:
    """Return the annotation files of a video, one per frame."""
    return layout.paths(name, video, "Annotations", ".png")


def _of_video(
    layout: VideoList, together: bool, name: str, video: object
) -> Iterator[Sample | DataError]:
    """Yield the samples of a video, annotator by annotator.

    If `together`, the samples of an annotator are a unit: they are scored together.
    """
    labels, video_where = _labels(layout, name, video), layout.where(name)
    media = film(layout.paths(name, video), size=partial(first_size_of, labels))
    ground_truth = ground_truth_of_video(labels, media)
    frames = tuple(layout.frames(name, video))

    def sample(annotator: int, number: str, expression: object) -> Sample:
        sample_id, where = f"{name}/{number}", f"{video_where}, expression {number!r}"
        masks = ground_truth.masks_of(expression, where)
        return expression_sample(
            sample_id,
            field(expression, "exp", str, where),
            media,
            target=Target(
                answer=Answer(masks=masks, instances=(masks,)),
                ignore=ground_truth.void,
                extra={"objects": ground_truth.objects},
            ),
            unit=f"{name}, annotator {annotator + 1}" if together else sample_id,
            group=name,
            categories={"annotator": ANNOTATORS[annotator]},
            frames=frames,
        )

    for annotator, expressions in enumerate(by_annotator(video, video_where)):
        yield from each(expressions, partial(sample, annotator))


def by_annotator(video: object, where: str) -> list[list[tuple[str, object]]]:
    """Return the (id, expression) pairs of each annotator, in the order of the objects.

    Expression n of the file, from 0, is by annotator n % 4 about object n // 4.

    Raises:
        DataError: their number is not a multiple of four, or the four of an object name different
            objects.
    """
    expressions = list(field(video, "expressions", dict, where).items())
    annotators = len(ANNOTATORS)
    if not expressions or len(expressions) % annotators:
        raise DataError(
            f"{where}: 'expressions'", expected="four for each object", found=str(len(expressions))
        )
    for start in range(0, len(expressions), annotators):
        of_object = expressions[start : start + annotators]
        object_ids = [
            str(field(expression, "obj_id", (str, int), f"{where}, expression {number!r}"))
            for number, expression in of_object
        ]
        if len(set(object_ids)) > 1:
            raise DataError(
                f"{where}: expressions {', '.join(number for number, _ in of_object)}",
                expected="one 'obj_id', as four in a row describe one object",
                found=", ".join(object_ids),
            )
    return [expressions[annotator::annotators] for annotator in range(annotators)]


@dataclass(frozen=True, slots=True)
class VideoGroundTruth:
    """The masks of a video's objects; each object has one mask per frame."""

    tracks: Mapping[int, tuple[Rle, ...]]
    """Each object's masks by its number; a mask is empty in a frame without the object."""
    objects: tuple[tuple[Rle, ...], ...]
    """Masks of the objects that the DAVIS scorer uses: 1 to the largest number in frame 0."""
    void: tuple[Rle, ...]
    """Pixels of each frame that do not count."""

    def masks_of(self, expression: object, where: str) -> tuple[Rle, ...]:
        """Return the masks of an expression's object; empty ones if no frame shows it.

        Raises:
            DataError: the expression's `obj_id` cannot be the number of an object.
        """
        number = str(field(expression, "obj_id", (str, int), where))
        if not (number.isascii() and number.isdecimal() and 0 < int(number) < VOID):
            raise DataError(
                f"{where}: 'obj_id'", expected=f"a number from 1 to {VOID - 1}", found=number[:40]
            )
        empty = tuple(mask.empty(mask.height, mask.width) for mask in self.void)
        return self.tracks.get(int(number), empty)


def ground_truth_of_video(paths: Sequence[Path], media: Media) -> VideoGroundTruth:
    """Read a video's annotations.

    Raises:
        DataError: an annotation is missing, damaged or of another size.
    """
    count = object_count(read_labels(paths[0]))
    tracks = label_tracks(paths, size=media.size)
    void = tracks.pop(VOID, None)
    width, height = media.size
    empty = (Rle.empty(height, width),) * len(paths)
    objects = tuple(tracks.get(number, empty) for number in range(1, count + 1))
    return VideoGroundTruth(tracks, objects, void or empty)

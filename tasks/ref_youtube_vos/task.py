"""Ref-YouTube-VOS (Seo et al., 2020): a mask in every frame for the referent of an expression.

`meta_expressions/<part>/meta_expressions.json` names videos, frames and expressions,
`train/meta.json` the objects; a PNG a frame, `train/Annotations/<video>/<frame>.png`, has the
object's number in each pixel:

    {"videos": {"003234408d": {"expressions": {"0": {"exp": "a penguin is on the left",
       "obj_id": "1"}}, "frames": ["00000", "00005"]}}}
    {"videos": {"003234408d": {"objects": {"1": {"category": "penguin", "frames": ["00000"]}}}}}
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.errors import DataError
from harness.layout import JsonIndex, LazyFileList, field, file, folder
from harness.masks import Rle
from harness.media import Media
from harness.task import Task, choose
from harness.tasks.ref_youtube_vos.splits import Split, choose_videos
from harness.tasks.rvos.labels import label_tracks
from harness.tasks.rvos.scoring import by_expressions
from harness.tasks.rvos.submission import write_submission
from harness.tasks.rvos.task import VideoFormat, each, unseen
from harness.tasks.rvos.videos import (
    VideoList,
    expression_sample,
    film,
    first_size_of,
    videos_of,
)
from harness.types import Answer, AnswerForm, Sample, Target

FIX = "`harness list tasks ref_youtube_vos` prints the source of the data."
PREFIX = "Annotations/"
"""Prefix of the names in the server's zip."""
MANIFEST = "shapes.json"
"""File of a generated world beside its benchmarks."""

PROTOCOLS = {
    "rvos/mevis": by_expressions(
        "J and F as tools/eval_mevis.py computes them: all frames, all expressions alike; the "
        "server's own code is not published"
    )
}


@dataclass(frozen=True, slots=True)
class Layout(VideoList):
    """One split as its files describe it, of which one video is held at a time."""

    others: tuple[Path, ...]
    """Further JSON files that it is read from."""
    objects: JsonIndex | None
    """Entries of `meta.json` by video; None where the ground truth is hidden."""


def ref_youtube_vos(
    data: Path, *, split: Split = "train_dev", protocol: str = "rvos/mevis"
) -> Task:
    """One sample an expression.

    Args:
        split: `train_dev` is one video of `train` in ten, `train_fit` the others; `valid` has no
            ground truth: evaluating it writes the server's submission.zip.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    layout = _layout(data / "ref_youtube_vos", split)
    hidden = layout.objects is None
    reader = VideoFormat(
        layout=layout,
        read=partial(_of_video, layout),
        indices=() if layout.objects is None else (layout.objects,),
        labels=(lambda name, video: ()) if hidden else partial(_labels, layout),
        fault=unseen,
    )
    return Task(
        name="ref_youtube_vos",
        version=1,
        split=split,
        forms=(AnswerForm.MASK_TRACK,),
        protocol=scoring,
        samples=reader.samples,
        annotations=LazyFileList(partial(_annotations, layout)),
        check=reader.check,
        check_samples=reader.check_samples,
        submission=partial(write_submission, layout.videos, prefix=PREFIX) if hidden else None,
        arguments={"split": split, "protocol": protocol},
    )


def _layout(root: Path, split: Split) -> Layout:
    part = "valid" if split == "valid" else "train"
    place = folder(root / part, fix=FIX)
    meta = folder(root / "meta_expressions" / part, fix=FIX) / "meta_expressions.json"
    videos = videos_of(file(meta, fix=FIX))
    if part == "valid":
        test_meta = root / "meta_expressions" / "test" / "meta_expressions.json"
        test = videos_of(test_meta) if test_meta.is_file() else {}
        is_generated = (root.parent / MANIFEST).is_file()
        kept = choose_videos(split, videos, test, str(meta), generated=is_generated)
        layout = Layout(place, meta, kept, (test_meta,) if test else (), None)
    else:
        objects = file(place / "meta.json", fix=FIX)
        kept = choose_videos(split, videos, {}, str(meta))
        layout = Layout(place, meta, kept, (objects,), videos_of(objects))
    if next(iter(layout.videos), None) is None:
        raise DataError(
            f"split {split} of {meta}", expected="at least one video", found="none", fix=FIX
        )
    return layout


def _annotations(layout: Layout) -> Iterator[Path]:
    """Yield the files that decide samples and ground truth: JSON files, and images of the masks."""
    yield from (layout.meta, *layout.others)
    if layout.objects is None:
        return
    for name, video in layout.videos.items():
        for path in _labels(layout, name, video):
            if path.is_file():
                yield path


def _labels(layout: Layout, name: str, video: object) -> list[Path]:
    return layout.paths(name, video, "Annotations", ".png")


def _film(layout: Layout, name: str, video: object) -> Media:
    labels = _labels(layout, name, video)
    return film(layout.paths(name, video), size=lambda: first_size_of(labels))


def _of_video(layout: Layout, name: str, video: object) -> Iterator[Sample | DataError]:
    media, where = _film(layout, name, video), layout.where(name)
    tracks = None if layout.objects is None else _tracks(layout, name, video, media)
    frames = tuple(layout.frames(name, video))

    def sample(number: str, expression: object) -> Sample:
        label = f"{where}, expression {number!r}"
        return expression_sample(
            f"{name}/{number}",
            field(expression, "exp", str, label),
            media,
            target=None if tracks is None else _target(tracks, expression, label),
            group=name,
            frames=frames,
        )

    yield from each(field(video, "expressions", dict, where).items(), sample)


def _objects(layout: Layout, name: str) -> list[int]:
    """The numbers of a video's objects."""
    where = f"{layout.place / 'meta.json'}, video {name!r}"
    assert layout.objects is not None, "the split has its ground truth"
    numbers = field(field(layout.objects, name, dict, where), "objects", dict, where)
    for number in numbers:
        if not (number.isascii() and number.isdecimal() and 0 < int(number) < 256):
            raise DataError(f"{where}: 'objects'", expected="numbers from 1 to 255", found=number)
    return [int(number) for number in numbers]


def _tracks(layout: Layout, name: str, video: object, media: Media) -> dict[int, tuple[Rle, ...]]:
    paths = _labels(layout, name, video)
    return label_tracks(paths, size=media.size, known=_objects(layout, name))


def _target(tracks: Mapping[int, tuple[Rle, ...]], expression: object, where: str) -> Target:
    number = field(expression, "obj_id", (str, int), where)
    if str(number) not in map(str, tracks):
        known = ", ".join(map(str, tracks))
        raise DataError(
            f"{where}: 'obj_id'",
            expected=f"an object of the video: {known}",
            found=repr(number)[:40],
        )
    masks = tracks[int(number)]
    return Target(answer=Answer(masks=masks, instances=(masks,)))

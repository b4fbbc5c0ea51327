"""Ref-YouTube-VOS (Seo et al., 2020): a mask in every frame for the referent of an expression.

`meta_expressions/<part>/meta_expressions.json` lists videos, frames and expressions (`<part>` is
train, valid or test), `train/meta.json` the objects. The PNG of a frame,
`train/Annotations/<video>/<frame>.png`, has the object's number at each pixel:

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
from harness.tasks.rvos.videos import VideoList, expression_sample, film, first_size_of, videos_of
from harness.types import Answer, Sample, Target

FIX = "`harness list tasks ref_youtube_vos` prints the source of the data."
ZIP_PREFIX = "Annotations/"
"""Prefix of the file names in the zip for the server."""
GENERATED_MANIFEST = "shapes.json"
"""File in the data root that shows that `harness data make` wrote the benchmarks."""

PROTOCOLS = {
    "rvos/mevis": by_expressions(
        "J and F as tools/eval_mevis.py computes them: all frames, all expressions alike; the "
        "server's own code is not published"
    )
}


@dataclass(frozen=True, slots=True)
class Layout(VideoList):
    """The videos of a split, with the files of its objects; entries are read one at a time."""

    others: tuple[Path, ...]
    """JSON files besides `meta` that decide the samples."""
    objects: JsonIndex | None
    """Entries of `meta.json` by video; None: the organisers keep the ground truth."""


def ref_youtube_vos(
    data: Path, *, split: Split = "train_dev", protocol: str = "rvos/mevis"
) -> Task:
    """One sample per expression.

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
    return reader.task(
        "ref_youtube_vos",
        scoring,
        LazyFileList(partial(_annotations, layout)),
        split=split,
        submission=partial(write_submission, layout.videos, prefix=ZIP_PREFIX) if hidden else None,
    )


def _layout(root: Path, split: Split) -> Layout:
    """Return the layout of a split; DataError if a file is missing, or the split has no video."""
    part = "valid" if split == "valid" else "train"
    part_folder = folder(root / part, fix=FIX)
    meta = folder(root / "meta_expressions" / part, fix=FIX) / "meta_expressions.json"
    videos = videos_of(file(meta, fix=FIX))
    if part == "valid":
        test_meta = root / "meta_expressions" / "test" / "meta_expressions.json"
        test = videos_of(test_meta) if test_meta.is_file() else {}
        is_generated = (root.parent / GENERATED_MANIFEST).is_file()
        chosen = choose_videos(split, videos, test, str(meta), generated=is_generated)
        layout = Layout(part_folder, meta, chosen, (test_meta,) if test else (), None)
    else:
        objects = file(part_folder / "meta.json", fix=FIX)
        chosen = choose_videos(split, videos, {}, str(meta))
        layout = Layout(part_folder, meta, chosen, (objects,), videos_of(objects))
    if next(iter(layout.videos), None) is None:
        raise DataError(
            f"split {split} of {meta}", expected="at least one video", found="none", fix=FIX
        )
    return layout


def _annotations(layout: Layout) -> Iterator[Path]:
    """Yield the files that decide samples and ground truth: JSON files and mask images."""
    yield from (layout.meta, *layout.others)
    if layout.objects is None:
        return
    for name, video in layout.videos.items():
        for path in _labels(layout, name, video):
            if path.is_file():
                yield path


def _labels(layout: Layout, name: str, video: object) -> list[Path]:
    """Return the annotation files of a video, one per frame."""
    return layout.paths(name, video, "Annotations", ".png")


def _film(layout: Layout, name: str, video: object) -> Media:
    """Open a video's frames; a placeholder for lost frames has the size of its annotations."""
    labels = _labels(layout, name, video)
    return film(layout.paths(name, video), size=lambda: first_size_of(labels))


def _of_video(layout: Layout, name: str, video: object) -> Iterator[Sample | DataError]:
    """Yield the sample of each expression about a video, or its error."""
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
    """Return the numbers of a video's objects in `meta.json`."""
    where = f"{layout.root / 'meta.json'}, video {name!r}"
    assert layout.objects is not None, "the split has its ground truth"
    numbers = field(field(layout.objects, name, dict, where), "objects", dict, where)
    for number in numbers:
        if not (number.isascii() and number.isdecimal() and 0 < int(number) < 256):
            raise DataError(f"{where}: 'objects'", expected="numbers from 1 to 255", found=number)
    return [int(number) for number in numbers]


def _tracks(layout: Layout, name: str, video: object, media: Media) -> dict[int, tuple[Rle, ...]]:
    """Return the masks of each object of a video by its number, one per frame."""
    paths = _labels(layout, name, video)
    return label_tracks(paths, size=media.size, known_numbers=_objects(layout, name))


def _target(tracks: Mapping[int, tuple[Rle, ...]], expression: object, where: str) -> Target:
    """Return the masks of the object that an expression names."""
    number = field(expression, "obj_id", (str, int), where)
    if str(number) not in map(str, tracks):
        known_numbers = ", ".join(map(str, tracks))
        raise DataError(
            f"{where}: 'obj_id'",
            expected=f"an object of the video: {known_numbers}",
            found=repr(number)[:40],
        )
    masks = tracks[int(number)]
    return Target(answer=Answer(masks=masks, instances=(masks,)))

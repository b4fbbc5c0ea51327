"""GroundMoRe (Deng et al., 2025): questions about events, answered by masks in their frames.

`trainval_v2.json` and `test_v2.json` (first release: `groundmore_train.json` and
`groundmore_test.json`) name clips. A clip's name ends with its bounds in the whole video, here 0:12
to 0:27:

    {"videos": {"x1Zq_0012_0027": {"questions": {"0": {"question": "Who …?", "answer": "the man",
       "obj_id": "1, 2", "q_type": "Causal", "action_start": "00:14", "action_end": "00:20"}}}}}

Frames lie at `annotations/<clip>/images/frame_%06d.jpg`, six a second from the clip's beginning,
masks at `…/masks/frame_%06d.png`: a pixel's value is the number of its object. In frames outside
the action the true masks are empty.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from harness.errors import DataError, MediaError
from harness.foreign import listed
from harness.layout import field, folder, path_inside, read_json
from harness.masks import Rle
from harness.media import Media, frame_files, placeholder_media
from harness.task import Problem, Task, choose
from harness.tasks.rvos.labels import sized_labels
from harness.tasks.rvos.scoring import by_expressions
from harness.tasks.rvos.tracks import instances, union_of_tracks
from harness.types import Answer, AnswerForm, Box, Query, Sample, Target, query_id
from harness.world.raster import edges

FIX = "`harness list tasks groundmore` prints the source of the data."
RATE = 6  # frames a second
FILES: Mapping[str, tuple[str, ...]] = {
    "train": ("trainval_v2.json", "groundmore_train.json"),
    "test": ("test_v2.json", "groundmore_test.json"),
}
"""Names of a split's file: of the second release, then of the first."""
FOLDERS = ("annotations", "groundmore_videos")  # of clips, in the two releases
TYPES = ("Causal", "Sequential", "Counterfactual", "Descriptive")
BOUNDS_PATTERN = re.compile(r"(\d\d)(\d\d)_(\d\d)(\d\d)\Z")  # x1Zq_0012_0027
FRAME_PATTERN = re.compile(r"frame_(\d{1,8})\.jpg\Z")  # frame_000012.jpg

PROTOCOLS = {
    "rvos/mevis": by_expressions("J and F over all frames; the official script looks at 20 of them")
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The file, the folder and the parsed entries of one split."""

    meta: Path
    clips: Path
    """The folder that has one folder per clip."""
    videos: Mapping[str, object]
    """Entries of `meta`, by the clip's name."""


def groundmore(
    data: Path, *, split: Literal["train", "test"] = "train", protocol: str = "rvos/mevis"
) -> Task:
    """One sample per question: masks of its objects in the frames of the action, empty elsewhere.

    A target has the boxes around these masks as well, `box_track`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "groundmore", fix=FIX)
    meta = next((root / name for name in FILES[split] if (root / name).is_file()), None)
    clips = next((root / name for name in FOLDERS if (root / name).is_dir()), None)
    if meta is None or clips is None:
        names = FILES[split] if meta is None else FOLDERS
        raise DataError(f"folder {root}", expected=" or ".join(names), found="neither", fix=FIX)
    layout = Layout(meta, clips, field(read_json(meta), "videos", dict, str(meta)))
    return Task(
        name="groundmore",
        version=1,
        split=split,
        forms=(AnswerForm.MASK_TRACK,),
        protocol=scoring,
        samples=partial(_samples, layout),
        annotations=(meta, *_mask_files(layout)),
        check=partial(_check, layout),
        arguments={"split": split, "protocol": protocol, "boxes": "extents of the masks"},
    )


def _mask_files(layout: Layout) -> Iterator[Path]:
    """Yield the mask files of all clips."""
    for name in layout.videos:
        yield from listed(path_inside(layout.clips, name) / "masks", "*.png")


def _samples(layout: Layout) -> Iterator[Sample]:
    for name, video in layout.videos.items():
        yield from _samples_of_clip(layout, name, video)


def _samples_of_clip(layout: Layout, name: str, video: object) -> Iterator[Sample]:
    """Yield one sample for each question about a clip."""
    where = f"{layout.meta}, clip {name!r}"
    clip = Clip(path_inside(layout.clips, name), clip_start(name, where))
    media = clip.media()
    for number, plain in field(video, "questions", dict, where).items():
        question_where = f"{where}, question {number!r}"
        first, last = action(plain, clip.start, question_where)
        question_type = field(plain, "q_type", str, question_where)
        sample_id = f"{name}/{number}"
        yield Sample(
            id=sample_id,
            query=Query(
                id=query_id(sample_id),
                media=(media,),
                forms=(AnswerForm.MASK_TRACK,),
                text=" ".join(field(plain, "question", str, question_where).split()),
            ),
            target=Target(
                answer=clip.answer(object_ids(plain, question_where), first, last, media),
                references=(field(plain, "answer", str, question_where),),
                extra={"action": [first, last], "type": question_type},
            ),
            group=name,
            categories={"type": question_type},
        )


class Clip:
    """A clip's folder; masks are read once for all of its questions."""

    def __init__(self, path: Path, start: int) -> None:
        self.path = path
        self.start = start
        """Second of the whole video at which the clip begins."""
        self._cache: dict[int, dict[int, Rle]] = {}
        """Masks read so far, by the number of the frame and then of the object."""

    def numbers(self) -> list[int]:
        """Return the numbers of the clip's frames, in order."""
        names = (FRAME_PATTERN.match(path.name) for path in listed(self.path / "images", "*.jpg"))
        return sorted(int(match[1]) for match in names if match)

    def media(self) -> Media:
        """Return the clip's frames, or a stand-in if there are none."""
        paths = [self.path / "images" / f"frame_{k:06d}.jpg" for k in self.numbers()]
        try:
            return frame_files(paths, frames_per_second=float(RATE))
        except MediaError as error:
            fault = MediaError(f"clip {self.path}: {error}")
            return placeholder_media(fault, size=(1, 1))

    def answer(self, objects: Sequence[int], first: int, last: int, media: Media) -> Answer:
        """Return each object's masks, the masks of their union, and the boxes around the union.

        All have one entry per frame, empty for frames outside `first` to `last`.
        """
        frames: list[dict[int, Rle]] = []
        for number in self.numbers() or [0]:  # a stand-in has one frame
            in_action = first <= number <= last and media.fault is None
            frames.append(self._masks(number, media.size) if in_action else {})
        tracks = [[masks.get(number) for masks in frames] for number in objects]
        masks = union_of_tracks(tracks, size=media.size, frames=len(frames))
        return Answer(
            masks=masks,
            instances=instances(tracks, media.size),
            box_track=tuple(
                Box(*map(float, edges(mask.to_array()))) if mask.area else None for mask in masks
            ),
        )

    def _masks(self, number: int, size: tuple[int, int]) -> dict[int, Rle]:
        """Return the masks of a frame by object, read at the first call."""
        if number not in self._cache:
            self._cache[number] = self._read_masks(number, size)
        return self._cache[number]

    def _read_masks(self, number: int, size: tuple[int, int]) -> dict[int, Rle]:
        """Read the masks of a frame by object; {} without a file, as in the official script."""
        path = self.path / "masks" / f"frame_{number:06d}.png"
        if not path.is_file():
            return {}
        labels = sized_labels(path, size)
        return {int(label): Rle.from_array(labels == label) for label in np.unique(labels) if label}


def clip_start(name: str, where: str) -> int:
    """Return the second at which a clip begins, from the end of its name, `MMSS_MMSS`.

    >>> clip_start("x1Zq_0120_0127", "clip")
    80

    Raises:
        DataError: the name has another ending.
    """
    match = BOUNDS_PATTERN.search(name)
    if match is None:
        raise DataError(where, expected="a name that ends with MMSS_MMSS", found=name[-12:])
    return 60 * int(match[1]) + int(match[2])


def action(plain: object, start: int, where: str) -> tuple[int, int]:
    """Return the first and the last frame of the action, counted from the clip's beginning.

    The frame at the end second is left out, as in `evaluate_groundmore.py`.

    Raises:
        DataError: a time is not `MM:SS` or `HH:MM:SS`.
    """
    begin, end = (
        seconds(field(plain, key, str, where), f"{where}: {key!r}")
        for key in ("action_start", "action_end")
    )
    return (begin - start) * RATE, (end - start) * RATE - 1


def seconds(text: str, where: str) -> int:
    """Convert a time, `SS`, `MM:SS` or `HH:MM:SS`, to seconds.

    >>> seconds("01:20", "time"), seconds("1:00:00", "time")
    (80, 3600)
    """
    units = text.strip().split(":")
    if not 1 <= len(units) <= 3 or not all(unit.isdigit() and len(unit) < 4 for unit in units):
        raise DataError(where, expected="MM:SS", found=text[:20])
    total = 0
    for unit in units:
        total = 60 * total + int(unit)
    return total


def object_ids(plain: object, where: str) -> tuple[int, ...]:
    """Return the numbers of a question's objects from its `obj_id`, such as 3 or "1, 2".

    Raises:
        DataError: they are not numbers from 1 to 255.
    """
    value = field(plain, "obj_id", (str, int), where)
    numbers = [number.strip() for number in str(value).split(",")]
    if not all(number.isdigit() and 0 < int(number[:4]) < 256 for number in numbers):
        raise DataError(
            f"{where}: 'obj_id'", expected="numbers from 1 to 255", found=repr(value)[:40]
        )
    return tuple(int(number) for number in numbers)


def _check(layout: Layout) -> Iterator[Problem]:
    """Yield the faults of clips, and the samples whose masks are all empty."""
    for name, video in layout.videos.items():
        try:
            for sample in _samples_of_clip(layout, name, video):
                if fault := sample.query.media[0].fault:
                    yield Problem(f"clip {name!r}", fault)
                    break
                if sample.target is None:
                    continue
                if not any(mask.area for mask in sample.target.answer.masks or ()):
                    yield Problem(
                        f"sample {sample.id!r}", "has no mask in the frames of its action"
                    )
        except DataError as error:
            yield Problem(f"clip {name!r}", str(error))

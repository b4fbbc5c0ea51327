"""ReVOS (Yan et al., 2024): expressions that refer, questions that need reasoning, and neither.

`meta_expressions_valid_.json` names videos, frames and expressions; `mask_dict.json` holds the
masks of all splits, `mask_dict_foreground.json` those of all objects of a video together:

    {"videos": {"OVIS/abc123": {"height": 720, "width": 1280, "frames": ["img_0000001"],
       "expressions": {"0": {"exp": "Which animal would win the race?", "obj_id": [1],
                             "anno_id": [42], "type_id": 1}}}}}
    {"42": [{"size": [720, 1280], "counts": "…"}], …}
    {"OVIS/abc123": {"masks_rle": [{"size": [720, 1280], "counts": "…"}],
                     "foreground_ratio": [0.3]}}
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.layout import field, file, folder
from harness.masks import Rle, check_size
from harness.media import Media
from harness.task import Task, choose
from harness.tasks.revos.scoring import PROTOCOLS, TYPES
from harness.tasks.rvos.task import VideoFormat, each
from harness.tasks.rvos.tracks import TrackFile, instances, object_track, sized, union_of_tracks
from harness.tasks.rvos.videos import VideoList, expression_sample, film, videos_of
from harness.types import Answer, AnswerForm, Sample, Target

FIX = "`harness list tasks revos` prints the source of the data."
FOREGROUND = "mask_dict_foreground.json"


@dataclass(frozen=True, slots=True)
class Layout(VideoList):
    """One split as its files describe it, of which one entry is held at a time."""

    masks: TrackFile
    """Tracks of run-lengths by annotation id."""
    foreground: TrackFile | None
    """Masks of all objects by video; None where the file is not there."""
    types: tuple[str, ...] = TYPES
    """Types of expressions, by their `type_id`."""


def revos(
    data: Path,
    *,
    split: Literal["train", "valid"] = "valid",
    protocol: str = "revos/visa255",
) -> Task:
    """One sample an expression.

    Args:
        protocol: `revos/visa255` or `revos/binary`, which differ in A and R; see the card.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "revos", fix=FIX)
    meta, masks, around = (
        place / name for name in (f"meta_expressions_{split}_.json", "mask_dict.json", FOREGROUND)
    )
    file(meta, expected="the expressions of this split", fix=FIX)
    file(masks, expected="the masks of all videos", fix=FIX)
    known = around.is_file()
    layout = Layout(
        place,
        meta,
        videos_of(meta),
        TrackFile(masks),
        TrackFile(around) if known else None,
    )
    reader = video_format(layout)
    return Task(
        name="revos",
        version=1,
        split=split,
        forms=(AnswerForm.MASK_TRACK,),
        protocol=scoring,
        samples=reader.samples,
        annotations=(meta, masks, *([around] if known else [])),
        check=reader.check,
        check_samples=reader.check_samples,
        arguments={
            "split": split,
            "protocol": protocol,
            "foreground": FOREGROUND if known else "the union of each video's objects",
        },
    )


def video_format(layout: Layout) -> VideoFormat:
    """The functions that read expressions and masks in this form."""
    files = layout.masks, layout.foreground
    return VideoFormat(
        layout=layout,
        read=partial(_of_video, layout),
        indices=tuple(path for path in files if path is not None),
        fault=without_object,
    )


def _of_video(layout: Layout, name: str, video: object) -> Iterator[Sample | DataError]:
    film = _film(layout, name, video)
    ground_truth = GroundTruth(layout, name, video, film)
    frames = tuple(layout.frames(name, video))

    def sample(number: str, expression: object) -> Sample:
        where = f"{ground_truth.where}, expression {number!r}"
        return expression_sample(
            f"{name}/{number}",
            field(expression, "exp", str, where),
            film,
            target=ground_truth.target(expression, where),
            group=name,
            categories=_categories(layout, expression, where),
            frames=frames,
        )

    yield from each(field(video, "expressions", dict, ground_truth.where).items(), sample)


def _film(layout: Layout, name: str, video: object) -> Media:
    where = layout.where(name)
    height, width = (field(video, side, int, where) for side in ("height", "width"))
    check_size(height, width, f"{where}:")
    return film(layout.paths(name, video), size=lambda: (width, height))


def _categories(layout: Layout, expression: object, where: str) -> dict[str, str]:
    kind = field(expression, "type_id", int, where)
    if kind not in range(len(layout.types)):
        named = (f"{number} ({name})" for number, name in enumerate(layout.types))
        raise DataError(f"{where}: 'type_id'", found=str(kind), expected=", ".join(named))
    objects = field(expression, "anno_id", list, where)
    number = "none" if not objects else "one" if len(objects) == 1 else "several"
    return {"type": layout.types[kind], "objects": number}


class GroundTruth:
    """The masks of one video's objects, each read when it is first needed."""

    def __init__(self, layout: Layout, name: str, video: object, film: Media) -> None:
        self.where = layout.where(name)
        self._layout, self._name, self._video, self._film = layout, name, video, film
        self._tracks: dict[str, tuple[Rle | None, ...]] = {}
        self._foreground: tuple[Rle, ...] | None = None

    def target(self, expression: object, where: str) -> Target:
        """The union of the expression's objects, the objects, and the video's foreground."""
        tracks = [
            self._track(annotation) for annotation in field(expression, "anno_id", list, where)
        ]
        masks = union_of_tracks(tracks, size=self._film.size, frames=len(self._film))
        objects = instances(tracks, self._film.size)
        extra = {"objects": objects or (masks,), "foreground": self.foreground()}
        return Target(answer=Answer(masks=masks, instances=objects), extra=extra)

    def foreground(self) -> tuple[Rle, ...]:
        """The pixels of any object of the video, as the file has them or from its objects."""
        if self._foreground is None:
            kept = self._layout.foreground
            self._foreground = self._union() if kept is None else self._select(kept)
        return self._foreground

    def _track(self, annotation: object) -> tuple[Rle | None, ...]:
        if not isinstance(annotation, (int, str)) or isinstance(annotation, bool):
            raise DataError(
                f"{self.where}: 'anno_id'",
                expected="ids of annotations",
                found=repr(annotation)[:40],
            )
        if str(annotation) not in self._tracks:
            where = f"{self._layout.place / 'mask_dict.json'}, for video {self._name!r}"
            track = object_track(
                self._layout.masks,
                annotation,
                size=self._film.size,
                frames=len(self._film),
                where=where,
            )
            self._tracks[str(annotation)] = tuple(track)
        return self._tracks[str(annotation)]

    def _union(self) -> tuple[Rle, ...]:
        expressions = field(self._video, "expressions", dict, self.where)
        every = (
            annotation
            for number, expression in expressions.items()
            for annotation in field(
                expression, "anno_id", list, f"{self.where}, expression {number!r}"
            )
        )
        tracks = [self._track(annotation) for annotation in every]
        return union_of_tracks(tracks, size=self._film.size, frames=len(self._film))

    def _select(self, kept: Mapping[str, object]) -> tuple[Rle, ...]:
        where = f"{self._layout.place / FOREGROUND}, video {self._name!r}"
        if self._name not in kept:
            raise DataError(where, expected="an entry", found="none")
        plain = field(kept[self._name], "masks_rle", list, where)
        if len(plain) != len(self._film):
            raise DataError(
                f"{where}: 'masks_rle'",
                found=f"{len(plain)} masks",
                expected=f"{len(self._film)}, one a frame",
            )
        return tuple(
            sized(
                Rle.from_json(mask, f"{where}, frame {index}"),
                self._film.size,
                f"{where}, frame {index}",
            )
            for index, mask in enumerate(plain)
        )


def without_object(sample: Sample) -> str | None:
    """Describe the fault of an expression of no object that should have one."""
    kind = sample.categories["type"]
    lacks = sample.categories["objects"] == "none" and kind != TYPES[2]
    return f"is {kind}, but has no object" if lacks else None

"""ReVOS (Yan et al., 2024): masks for referring expressions and reasoning questions about videos.

A third type of expressions, "hallucination", has no target. Ref-SAV has the same layout of files
(`video_format`). `meta_expressions_valid_.json` lists videos, frames and expressions;
`mask_dict.json` has the masks of all splits by annotation id, `mask_dict_foreground.json` the union
of all objects of each video:

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
from harness.types import Answer, Sample, Target

FIX = "`harness list tasks revos` prints the source of the data."
FOREGROUND = "mask_dict_foreground.json"


@dataclass(frozen=True, slots=True)
class Layout(VideoList):
    """The videos of a split and the files of their masks; entries are read one at a time."""

    masks: TrackFile
    """Tracks of run-lengths by annotation id."""
    foreground: TrackFile | None
    """Union of all objects of each video; None: there is no such file."""
    types: tuple[str, ...] = TYPES
    """Types of expressions, by their `type_id`."""


def revos(
    data: Path,
    *,
    split: Literal["train", "valid"] = "valid",
    protocol: str = "revos/visa255",
) -> Task:
    """One sample per expression.

    Args:
        protocol: `revos/visa255` or `revos/binary`, which differ in A and R; see the card.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "revos", fix=FIX)
    meta, masks = root / f"meta_expressions_{split}_.json", root / "mask_dict.json"
    file(meta, expected="the expressions of this split", fix=FIX)
    file(masks, expected="the masks of all videos", fix=FIX)
    foreground = root / FOREGROUND
    has_foreground = foreground.is_file()
    layout = Layout(
        root,
        meta,
        videos_of(meta),
        TrackFile(masks),
        TrackFile(foreground) if has_foreground else None,
    )
    reader = video_format(layout)
    return reader.task(
        "revos",
        scoring,
        (meta, masks, *([foreground] if has_foreground else [])),
        split=split,
        arguments={
            "foreground": FOREGROUND if has_foreground else "the union of each video's objects"
        },
    )


def video_format(layout: Layout) -> VideoFormat:
    """Return the reader of files in the layout of ReVOS, which Ref-SAV also uses."""
    files = layout.masks, layout.foreground
    return VideoFormat(
        layout=layout,
        read=partial(_of_video, layout),
        indices=tuple(path for path in files if path is not None),
        fault=without_object,
    )


def _of_video(layout: Layout, name: str, video: object) -> Iterator[Sample | DataError]:
    """Yield the sample of each expression about a video, or its error."""
    media = _open_film(layout, name, video)
    ground_truth = GroundTruth(layout, name, video, media)
    frames = tuple(layout.frames(name, video))

    def sample(number: str, expression: object) -> Sample:
        where = f"{ground_truth.where}, expression {number!r}"
        return expression_sample(
            f"{name}/{number}",
            field(expression, "exp", str, where),
            media,
            target=ground_truth.target(expression, where),
            group=name,
            categories=_categories(layout, expression, where),
            frames=frames,
        )

    yield from each(field(video, "expressions", dict, ground_truth.where).items(), sample)


def _open_film(layout: Layout, name: str, video: object) -> Media:
    """Open a video's frames; a placeholder for lost frames has the size in the video's entry."""
    where = layout.where(name)
    height, width = (field(video, side, int, where) for side in ("height", "width"))
    check_size(height, width, f"{where}:")
    return film(layout.paths(name, video), size=lambda: (width, height))


def _categories(layout: Layout, expression: object, where: str) -> dict[str, str]:
    """Return an expression's categories: its `type`, and its `objects`, none, one or several."""
    type_id = field(expression, "type_id", int, where)
    if type_id not in range(len(layout.types)):
        type_names = (f"{object_count} ({name})" for object_count, name in enumerate(layout.types))
        raise DataError(f"{where}: 'type_id'", found=str(type_id), expected=", ".join(type_names))
    objects = field(expression, "anno_id", list, where)
    object_count = "none" if not objects else "one" if len(objects) == 1 else "several"
    return {"type": layout.types[type_id], "objects": object_count}


class GroundTruth:
    """The masks of one video's objects; each is read when it is first needed, and then cached."""

    def __init__(self, layout: Layout, name: str, video: object, media: Media) -> None:
        self.where = layout.where(name)
        self._layout, self._name, self._video, self._film = layout, name, video, media
        self._tracks: dict[str, tuple[Rle | None, ...]] = {}
        self._foreground: tuple[Rle, ...] | None = None

    def target(self, expression: object, where: str) -> Target:
        """Return an expression's target: its objects' masks, their union, the video's foreground.

        For an expression without objects, `extra["objects"]` has the empty union.
        """
        tracks = [
            self._track(annotation) for annotation in field(expression, "anno_id", list, where)
        ]
        masks = union_of_tracks(tracks, size=self._film.size, frames=len(self._film))
        objects = instances(tracks, self._film.size)
        extra = {"objects": objects or (masks,), "foreground": self.foreground()}
        return Target(answer=Answer(masks=masks, instances=objects), extra=extra)

    def foreground(self) -> tuple[Rle, ...]:
        """Return the union of all objects in each frame, from its file if there is one."""
        if self._foreground is None:
            masks = self._layout.foreground
            self._foreground = self._union() if masks is None else self._select(masks)
        return self._foreground

    def _track(self, annotation: object) -> tuple[Rle | None, ...]:
        """Return the masks of an annotation's object; None for frames without the object."""
        if not isinstance(annotation, (int, str)) or isinstance(annotation, bool):
            raise DataError(
                f"{self.where}: 'anno_id'",
                expected="ids of annotations",
                found=repr(annotation)[:40],
            )
        if str(annotation) not in self._tracks:
            where = f"{self._layout.root / 'mask_dict.json'}, for video {self._name!r}"
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
        """Return the union of the objects of all expressions about the video."""
        tracks: list[tuple[Rle | None, ...]] = []
        expressions = field(self._video, "expressions", dict, self.where)
        for number, expression in expressions.items():
            where = f"{self.where}, expression {number!r}"
            tracks += map(self._track, field(expression, "anno_id", list, where))
        return union_of_tracks(tracks, size=self._film.size, frames=len(self._film))

    def _select(self, foreground: Mapping[str, object]) -> tuple[Rle, ...]:
        """Return the video's masks in the file of foregrounds."""
        where = f"{self._layout.root / FOREGROUND}, video {self._name!r}"
        if self._name not in foreground:
            raise DataError(where, expected="an entry", found="none")
        plain = field(foreground[self._name], "masks_rle", list, where)
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
    """Return a message if an expression has no object but its type needs one; else None."""
    expression_type = sample.categories["type"]
    lacks = sample.categories["objects"] == "none" and expression_type != TYPES[2]
    return f"is {expression_type}, but has no object" if lacks else None

"""MeViS (Ding et al., 2023): a mask in every frame for what an expression about motion means.

`meta_expressions.json` names videos, frames and expressions, `mask_dict.json` holds the masks:

    {"videos": {"377b1c5f365c": {"vid_id": 3, "frames": ["00000", "00001"],
       "expressions": {"0": {"exp": "4 lizards moving around",
                             "obj_id": [0, 1, 2, 3], "anno_id": [2, 3, 4, 5]}}}}}
    {"2": [{"size": [480, 854], "counts": "…"}, null], …}
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError, MediaError
from harness.layout import field, folder, inside, read_json
from harness.masks import Rle
from harness.media import Media, frame_files, header_size, lost
from harness.metrics.boundary import boundary_f_measure
from harness.metrics.region import region_similarity
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Problem, Protocol, Task, choose
from harness.tasks.mevis.submission import write_submission
from harness.types import Answer, AnswerForm, Prediction, Query, Sample, Target, query_id

FIX = "`harness list tasks mevis` says where the data is had."


@dataclass(frozen=True, slots=True)
class Layout:
    """One split as its two JSON files describe it."""

    place: Path
    videos: Mapping[str, Any]
    masks: Mapping[str, Any] | None
    """Run-lengths by annotation id; None where the truth is hidden."""


def mevis(
    data: Path,
    *,
    split: Literal["train", "valid_u", "valid"] = "valid_u",
    protocol: str = "rvos/mevis",
) -> Task:
    """One sample an expression.

    Args:
        data: The folder that holds one folder a benchmark.
        split: `valid` has no truth: evaluating it writes the server's submission.zip.
        protocol: `rvos/mevis`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "mevis" / split, fix=FIX)
    files = [place / "meta_expressions.json"]
    hidden = split == "valid"
    if not hidden:
        files.append(place / "mask_dict.json")
    layout = Layout(
        place,
        field(read_json(files[0]), "videos", dict, str(files[0])),
        None if hidden else read_json(files[1]),
    )
    return Task(
        name="mevis",
        version=1,
        split=split,
        forms=(AnswerForm.MASK_TRACK,),
        protocol=scoring,
        samples=partial(_samples, layout),
        annotations=tuple(files),
        check=partial(_check, layout),
        submission=partial(write_submission, layout.videos) if hidden else None,
        arguments={"split": split, "protocol": protocol},
    )


def _samples(layout: Layout) -> Iterator[Sample]:
    for name, video in layout.videos.items():
        where = f"{layout.place}/meta_expressions.json, video {name!r}"
        media = _video(layout, name, video)
        for number, expression in field(video, "expressions", dict, where).items():
            sample_id = f"{name}/{number}"
            text = field(expression, "exp", str, f"{where}, expression {number!r}")
            yield Sample(
                id=sample_id,
                query=Query(
                    # Blanks as the official readers leave them; those lower the case as well.
                    id=query_id(sample_id), text=" ".join(text.split()), media=(media,),
                    forms=(AnswerForm.MASK_TRACK,),
                ),
                target=_target(layout, expression, media, sample_id),
                group=name,
                categories=_categories(expression),
            )  # fmt: skip


def _video(layout: Layout, name: str, video: Any) -> Media:
    """The video's frames; something that stands for them if one of them is missing."""
    paths = frame_paths(layout.place, name, video)
    gone = next((path for path in paths if not path.is_file()), None)
    try:
        if gone is not None:
            raise MediaError(f"picture {gone}", expected="a file", found="none")
        return frame_files(paths)
    except MediaError as error:
        return lost(error, size=_size(layout, video, paths), frames=len(paths))


def _size(layout: Layout, video: Mapping[str, Any], paths: Sequence[Path]) -> tuple[int, int]:
    """(width, height) of a video from a frame that is there, or else from a mask."""
    for path in paths:
        with suppress(DataError):
            return header_size(path)
    tracks = (
        (layout.masks or {}).get(str(annotation), ())
        for expression in video.get("expressions", {}).values()
        for annotation in expression.get("anno_id", ())
    )
    known = (Rle.from_json(mask).size for track in tracks for mask in track if mask is not None)
    return next(known, (1, 1))


def frame_paths(place: Path, name: str, video: Any) -> list[Path]:
    """The pictures of a video, in order."""
    frames = field(video, "frames", list, f"{place}/meta_expressions.json, video {name!r}")
    if not frames:
        raise DataError(f"{place}/meta_expressions.json, video {name!r}: 'frames'",
                        expected="at least one frame", found="none")  # fmt: skip
    pictures = inside(place / "JPEGImages", name)
    return [inside(pictures, f"{frame}.jpg") for frame in frames]


def _categories(expression: Mapping[str, Any]) -> dict[str, str]:
    objects = expression.get("anno_id")
    if not isinstance(objects, list):
        return {}  # the truth is hidden
    return {"objects": "several" if len(objects) > 1 else "one"}


def _target(
    layout: Layout, expression: Mapping[str, Any], media: Media, sample_id: str
) -> Target | None:
    """The union of the expression's annotations in each frame."""
    if layout.masks is None:
        return None
    width, height = media.size
    where = f"{layout.place}/mask_dict.json, for {sample_id}"
    frames = [Rle.empty(height, width)] * len(media)
    for annotation in field(expression, "anno_id", list, where):
        track = field(layout.masks, str(annotation), list, where)
        if len(track) != len(media):
            raise DataError(f"{where}: annotation {annotation}", found=f"{len(track)} masks",
                            expected=f"{len(media)}, one a frame")  # fmt: skip
        for index, plain in enumerate(track):
            if plain is None:
                continue
            mask = Rle.from_json(plain, f"{where}: annotation {annotation}, frame {index}")
            if mask.size != media.size:
                raise DataError(
                    f"{where}: annotation {annotation}, frame {index}",
                    expected=f"{width} × {height} pixels, as the picture has",
                    found=f"{mask.width} × {mask.height}",
                )  # fmt: skip
            frames[index] = mask if frames[index].area == 0 else frames[index].union(mask)
    return Target(answer=Answer(masks=tuple(frames)))


def _check(layout: Layout) -> Iterator[Problem]:
    for name, video in layout.videos.items():
        try:
            paths = frame_paths(layout.place, name, video)
            yield from (Problem(str(path), "is missing") for path in paths if not path.is_file())
            if all(path.is_file() for path in paths):
                yield from _check_video(layout, name, video, paths)
        except DataError as error:
            yield Problem(str(layout.place / "meta_expressions.json"), str(error))


def _check_video(
    layout: Layout, name: str, video: Mapping[str, Any], paths: Sequence[Path]
) -> Iterator[Problem]:
    sizes = {header_size(path) for path in paths}
    if len(sizes) > 1:
        yield Problem(str(paths[0].parent), f"its frames have {len(sizes)} different sizes")
        return
    media = frame_files(paths)
    for number, expression in field(video, "expressions", dict, f"video {name!r}").items():
        try:
            _target(layout, expression, media, f"{name}/{number}")
        except DataError as error:
            yield Problem(str(layout.place / "mask_dict.json"), str(error))


def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """J and F of one expression, as tools/eval_mevis.py (7c0620b) computes them.

    Means over all frames. A failure scores 0 and 0, as the official script scores a missing
    folder; "no target" is a prediction of empty masks.
    """
    (sample,), (prediction,) = unit, predictions
    if prediction.answer is None:
        return {"J": Mean(0.0), "F": Mean(0.0)}
    assert sample.target is not None and sample.target.answer.masks is not None
    truth = sample.target.answer.masks
    predicted = prediction.answer.masks
    if predicted is None:
        predicted = tuple(Rle.empty(mask.height, mask.width) for mask in truth)
    return {
        "J": Mean(float(region_similarity(truth, predicted).mean())),
        "F": Mean(float(boundary_f_measure(truth, predicted).mean())),
    }


def half_sum(region: Any, boundary: Any) -> Any:
    """J&F of final means."""
    return (region + boundary) / 2


METRICS = (
    Metric("J", about="region similarity: mean IoU over frames, then over expressions"),
    Metric("F", about="boundary measure: mean over frames, then over expressions"),
    Metric("J&F", of=("J", "F"), derived=half_sum, about="mean of J and F"),
)

PROTOCOLS = {
    "rvos/mevis": Protocol(
        name="rvos/mevis",
        score=score,
        metrics=METRICS,
        headline="J&F",
        ceiling=Ceiling(value=1.0),
        about="tools/eval_mevis.py: all frames, all expressions alike",
    )
}

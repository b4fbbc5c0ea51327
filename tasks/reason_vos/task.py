"""ReasonVOS (Bai et al., 2024): expressions that need reasoning, on videos of four data sets.

`meta_expressions.json` lists videos, frames and expressions. The masks of an object are the PNG
files of `Annotations/<source>_<video>_<obj_id>`; not every frame has one. They may have any 8-bit
mode; pixels that are not black are the object, as in the official script, which reads them as grey.
Grey of 16 bits, and transparency, are refused.

    {"videos": {"0a1b": {"source": "BURST", "frames": ["00000", "00001"], "expressions": [
       {"obj_id": 1, "exp_id": 0, "exp_text": "the one that gets away", "is_sent": false}]}}}
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.foreign import listed
from harness.layout import LazyFileList, field, file, folder, path_inside
from harness.masks import Rle
from harness.media import Media
from harness.scores import Scores
from harness.task import Task, choose, official_and_strict, single_answer
from harness.tasks.rvos import scoring as rvos
from harness.tasks.rvos.task import VideoFormat
from harness.tasks.rvos.tracks import sized
from harness.tasks.rvos.videos import VideoList, expression_sample, film, first_size_of, videos_of
from harness.tasks.segmentation.task import read_mask_image
from harness.types import Answer, Prediction, Sample, Target

FIX = "`harness list tasks reason_vos` prints the source of the data."
Expression = tuple[str, str, str, dict[str, str]]
"""(name of the object's folder, number, text, categories) of an expression."""


def reason_vos(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "reasonvos/official",
) -> Task:
    """One sample per expression; `protocol` is `reasonvos/official` or `reasonvos/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "reason_vos", fix=FIX)
    meta = file(root / "meta_expressions.json", fix=FIX)
    layout = VideoList(root, meta, videos_of(meta))
    reader = VideoFormat(layout=layout, read=partial(_of_video, layout))
    return reader.task(
        "reason_vos", scoring, LazyFileList(partial(_annotations, layout)), split=split
    )


def _annotations(layout: VideoList) -> Iterator[Path]:
    """Yield the files that decide samples and ground truth."""
    yield layout.meta
    for name, video in layout.videos.items():
        # Several expressions may be about one object; `dict.fromkeys` keeps each folder once.
        for key in dict.fromkeys(key for key, *_ in _expressions(layout, name, video)):
            yield from _labels(layout, key)


def _labels(layout: VideoList, key: str) -> list[Path]:
    """Return the PNG files of an object's folder, named `key`, in order.

    Raises:
        DataError: the folder has none.
    """
    path = path_inside(layout.root / "Annotations", key)
    paths = listed(path, "*.png")
    if not paths:
        raise DataError(f"folder {path}", expected="masks, <frame>.png", found="none", fix=FIX)
    return paths


def _expressions(layout: VideoList, name: str, video: object) -> Iterator[Expression]:
    """Yield the expressions about a video."""
    video_where = layout.where(name)
    source = field(video, "source", str, video_where)
    for number, expression in enumerate(field(video, "expressions", list, video_where)):
        where = f"{video_where}, expression {number}"
        categories = {
            "source": source,
            "length": "sentence" if field(expression, "is_sent", (bool, int), where) else "phrase",
        }
        key = f"{source}_{name}_{field(expression, 'obj_id', (int, str), where)}"
        expression_id = str(field(expression, "exp_id", (int, str), where))
        yield key, expression_id, field(expression, "exp_text", str, where), categories


def _of_video(layout: VideoList, name: str, video: object) -> Iterator[Sample]:
    """Yield the sample of each expression about a video."""
    expressions = list(_expressions(layout, name, video))
    labels = {key: _labels(layout, key) for key, *_ in expressions}
    all_labels = [path for paths in labels.values() for path in paths]
    media = film(layout.paths(name, video), size=partial(first_size_of, all_labels))
    frames = tuple(layout.frames(name, video))
    targets = {key: target(paths, frames, media) for key, paths in labels.items()}
    for key, number, text, categories in expressions:
        yield expression_sample(
            f"{key}/{number}",
            text,
            media,
            target=targets[key],
            group=name,
            categories=categories,
            frames=frames,
        )


def target(paths: Sequence[Path], frames: Sequence[str], media: Media) -> Target:
    """Return an object's masks, one per frame; `extra["counted"]` has the frames with a PNG file.

    The other frames have empty masks and do not count. `frames` has the names of all frames.

    Raises:
        DataError: a file is damaged, has another size or mode, or is not of a frame of the video.
    """
    indices: Mapping[str, int] = {frame: index for index, frame in enumerate(frames)}
    masks = [Rle.empty(media.size[1], media.size[0])] * len(frames)
    annotated = []
    for path in paths:
        if path.stem not in indices:
            raise DataError(f"annotation {path}", expected="a frame of the video", found=path.stem)
        index = indices[path.stem]
        annotated.append(index)
        masks[index] = sized(read_mask_image(path), media.size, f"annotation {path}")
    track = tuple(masks)
    extra = {"counted": tuple(annotated)}
    return Target(answer=Answer(masks=track, instances=(track,)), extra=extra)


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """Return J and F of one expression over its annotated frames.

    A failed expression scores 0 and 0 with `strict`; else it is left out, as by
    `eval_reason_vos.py` (146f2bc).
    """
    _, target, prediction = single_answer(unit, predictions)
    if prediction.answer is None and not strict:
        return {}
    return rvos.score(unit, predictions, frames=target.extra["counted"])


PROTOCOLS = official_and_strict(
    "reasonvos",
    score,
    metrics=rvos.METRICS,
    headline="J&F",
    official="VideoLISA's eval_reason_vos.py: samples without a prediction are left out",
    strict="what has no prediction scores 0",
)

"""ReasonVOS (Bai et al., 2024): expressions that need reasoning, on videos of four data sets.

`meta_expressions.json` names videos, frames and expressions; the masks of an object are the PNG
files of `Annotations/<source>_<video>_<obj_id>`, of which not every frame has one. They are of any
mode of 8 bits: what is not black is the object, as for the official script, which reads them as
grey. Grey of 16 bits, and transparency that may hold the object, are refused.

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
from harness.tasks.rvos.videos import (
    VideoList,
    expression_sample,
    film,
    first_size_of,
    videos_of,
)
from harness.tasks.segmentation.task import read_mask_image
from harness.types import Answer, AnswerForm, Prediction, Sample, Target

FIX = "`harness list tasks reason_vos` prints the source of the data."
Spoken = tuple[str, str, str, dict[str, str]]


def reason_vos(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "reasonvos/official",
) -> Task:
    """One sample an expression; `protocol` is `reasonvos/official` or `reasonvos/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "reason_vos", fix=FIX)
    meta = file(place / "meta_expressions.json", fix=FIX)
    layout = VideoList(place, meta, videos_of(meta))
    reader = VideoFormat(layout=layout, read=partial(_of_video, layout))
    return Task(
        name="reason_vos",
        split=split,
        forms=(AnswerForm.MASK_TRACK,),
        protocol=scoring,
        samples=reader.samples,
        annotations=LazyFileList(partial(_annotations, layout)),
        check=reader.check,
        check_samples=reader.check_samples,
        arguments={"split": split, "protocol": protocol},
    )


def _annotations(layout: VideoList) -> Iterator[Path]:
    yield layout.meta
    for name, video in layout.videos.items():
        for key in dict.fromkeys(key for key, *_ in _expressions(layout, name, video)):
            yield from _labels(layout, key)


def _labels(layout: VideoList, key: str) -> list[Path]:
    """The PNG files of an object, in order.

    Raises:
        DataError: there is none.
    """
    place = path_inside(layout.place / "Annotations", key)
    paths = listed(place, "*.png")
    if not paths:
        raise DataError(f"folder {place}", expected="masks, <frame>.png", found="none", fix=FIX)
    return paths


def _expressions(layout: VideoList, name: str, video: object) -> Iterator[Spoken]:
    """(object's folder, number, text, categories) of each expression."""
    where = layout.where(name)
    source = field(video, "source", str, where)
    for place, expression in enumerate(field(video, "expressions", list, where)):
        named = f"{where}, expression {place}"
        categories = {
            "source": source,
            "length": "sentence" if field(expression, "is_sent", (bool, int), named) else "phrase",
        }
        key = f"{source}_{name}_{field(expression, 'obj_id', (int, str), named)}"
        number = str(field(expression, "exp_id", (int, str), named))
        yield key, number, field(expression, "exp_text", str, named), categories


def _of_video(layout: VideoList, name: str, video: object) -> Iterator[Sample]:
    expressions = list(_expressions(layout, name, video))
    labels = {key: _labels(layout, key) for key, *_ in expressions}
    every = [path for paths in labels.values() for path in paths]
    media = film(layout.paths(name, video), size=partial(first_size_of, every))
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
    """An object's masks by its PNG files; frames without one are empty and do not count.

    Raises:
        DataError: a file is damaged, of another size or mode, or of no frame of the video.
    """
    numbers: Mapping[str, int] = {frame: index for index, frame in enumerate(frames)}
    masks = [Rle.empty(media.size[1], media.size[0])] * len(frames)
    counted = []
    for path in paths:
        if path.stem not in numbers:
            raise DataError(f"annotation {path}", expected="a frame of the video", found=path.stem)
        counted.append(numbers[path.stem])
        masks[counted[-1]] = sized(read_mask_image(path), media.size, f"annotation {path}")
    whole = tuple(masks)
    return Target(answer=Answer(masks=whole, instances=(whole,)), extra={"counted": tuple(counted)})


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """J and F of one expression over its annotated frames.

    An expression without a prediction scores 0 and 0 with `strict`; `eval_reason_vos.py` (146f2bc)
    leaves it out.
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
    official="VideoLISA's eval_reason_vos.py: what has no prediction counts nowhere",
    strict="what has no prediction scores 0",
)

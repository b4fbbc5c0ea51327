"""MeViS (Ding et al., 2023): a mask in every frame for the referents of an expression about motion.

`meta_expressions.json` names videos, frames and expressions, `mask_dict.json` holds the masks:

    {"videos": {"377b1c5f365c": {"vid_id": 3, "frames": ["00000", "00001"],
       "expressions": {"0": {"exp": "4 lizards moving around",
                             "obj_id": [0, 1, 2, 3], "anno_id": [2, 3, 4, 5]}}}}}
    {"2": [{"size": [480, 854], "counts": "…"}, null], …}

In version 2 of the data set, the file of expressions is `meta_expressions_v2.json`, or
`meta_expressions_v2_release.json` in `valid`; version 1's name is accepted too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.layout import field, file, folder
from harness.masks import Rle
from harness.media import Media
from harness.scores import Mean, Metric, Scores
from harness.task import Task, choose
from harness.tasks.rvos.scoring import by_expressions, ground_truth_of, predicted_masks, score
from harness.tasks.rvos.submission import write_submission
from harness.tasks.rvos.task import VideoFormat, each
from harness.tasks.rvos.tracks import TrackFile, instances, object_track, union_of_tracks
from harness.tasks.rvos.videos import VideoList, expression_sample, film, videos_of
from harness.types import Answer, Prediction, Sample, Target

FIX = "`harness list tasks mevis` prints the source of the data."
FIRST_NAME = "meta_expressions.json"
"""The file of expressions of the first version."""


@dataclass(frozen=True, slots=True)
class Layout(VideoList):
    """The videos of a split with the masks of its objects; entries are read one at a time."""

    masks: TrackFile | None
    """Run-lengths by annotation id; None: the organisers keep the ground truth."""


def mevis(
    data: Path,
    *,
    split: Literal["train", "valid_u", "valid"] = "valid_u",
    protocol: str = "rvos/mevis",
    version: Literal[1, 2] = 1,
) -> Task:
    """One sample per expression.

    Args:
        split: `valid` has no ground truth: evaluating it writes the server's submission.zip.
        protocol: `rvos/mevis`, or `rvos/mevis_no_target` with the two accuracies of no target.
        version: Version of the data set. The second, in `mevis/v2`, has expressions without target.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "mevis" / ("v2" if version == 2 else "") / split, fix=FIX)
    hidden = split == "valid"
    expressions = expressions_file(split, version)
    if not (root / expressions).is_file() and (root / FIRST_NAME).is_file():
        expressions = FIRST_NAME
    names = (expressions, *(() if hidden else ("mask_dict.json",)))
    files = [file(root / name, fix=FIX) for name in names]
    videos = videos_of(files[0])
    masks = None if hidden else TrackFile(files[1])
    layout = Layout(root, files[0], videos, masks)
    reader = VideoFormat(
        layout=layout, read=partial(_of_video, layout), indices=() if masks is None else (masks,)
    )
    return reader.task(
        "mevis",
        scoring,
        tuple(files),
        split=split,
        submission=partial(write_submission, layout.videos) if hidden else None,
        arguments={"version": 2} if version == 2 else {},
    )


def expressions_file(split: str, version: int) -> str:
    """Return the name of a split's file of expressions."""
    if version == 1:
        return FIRST_NAME
    return f"meta_expressions_v2{'_release' if split == 'valid' else ''}.json"


def _of_video(layout: Layout, name: str, video: Any) -> Iterator[Sample | DataError]:
    """Yield the sample of each expression about a video, or its error."""
    where, paths = layout.where(name), layout.paths(name, video)
    media = film(paths, size=partial(_size, layout, video))
    frames = tuple(layout.frames(name, video))

    def sample(number: str, expression: Any) -> Sample:
        sample_id = f"{name}/{number}"
        return expression_sample(
            sample_id,
            field(expression, "exp", str, f"{where}, expression {number!r}"),
            media,
            target=_target(layout, expression, media, sample_id),
            group=name,
            categories=_categories(expression),
            frames=frames,
        )

    yield from each(field(video, "expressions", dict, where).items(), sample)


def _size(layout: Layout, video: Mapping[str, Any]) -> tuple[int, int]:
    """Return (width, height) of a video's first mask; (1, 1) if it has none."""
    masks: Mapping[str, Any] = {} if layout.masks is None else layout.masks
    for expression in video.get("expressions", {}).values():
        for annotation in expression.get("anno_id", ()):
            for mask in masks.get(str(annotation), ()):
                if mask is not None:
                    return Rle.from_json(mask).size
    return 1, 1


def _categories(expression: Mapping[str, object]) -> dict[str, str]:
    """Return the category `objects` of an expression: none, one or several."""
    objects = expression.get("anno_id")
    if not isinstance(objects, list):
        return {}  # the ground truth is hidden
    return {"objects": "several" if len(objects) > 1 else "one" if objects else "none"}


def _target(
    layout: Layout, expression: Mapping[str, object], media: Media, sample_id: str
) -> Target | None:
    """Return the masks of the expression's objects in each frame, and their union."""
    if layout.masks is None:
        return None
    where = f"{layout.root}/mask_dict.json, for {sample_id}"
    tracks = [
        object_track(layout.masks, annotation, size=media.size, frames=len(media), where=where)
        for annotation in field(expression, "anno_id", list, where)
    ]
    masks = union_of_tracks(tracks, size=media.size, frames=len(media))
    return Target(answer=Answer(masks=masks, instances=instances(tracks, media.size)))


def score_no_target(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return J and F, and T_acc or N_acc: 1 if the answer is right about having a target.

    T_acc is for expressions with a target, N_acc for those without.
    """
    (sample,), (prediction,) = unit, predictions
    ground_truth = ground_truth_of(sample)
    has_no_target = not any(mask.area for mask in ground_truth)
    predicted = predicted_masks(prediction.answer, ground_truth)
    answered_nothing = not any(mask.area for mask in predicted)
    right = prediction.answer is not None and answered_nothing == has_no_target
    accuracy = {"N_acc" if has_no_target else "T_acc": Mean(float(right))}
    return {**score(unit, predictions), **accuracy}


BY_EXPRESSIONS = by_expressions("tools/eval_mevis.py: all frames, all expressions alike")
PROTOCOLS = {
    "rvos/mevis": BY_EXPRESSIONS,
    "rvos/mevis_no_target": replace(
        BY_EXPRESSIONS,
        name="rvos/mevis_no_target",
        score=score_no_target,
        metrics=(
            *BY_EXPRESSIONS.metrics,
            Metric(
                "N_acc",
                about="share of expressions without a target that have no pixel in any frame",
            ),
            Metric("T_acc", about="share of the other expressions that have a pixel in a frame"),
        ),
        about="the same, with accuracies of no target, which are ours",
    ),
}

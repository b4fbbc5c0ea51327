"""Runs as FiftyOne's datasets: images or videos, questions, ground truth, predictions and scores.

The layout is that of `fiftyone.types.FiftyOneDataset` without a version in `metadata.json`, whose
fields FiftyOne declares itself while it reads them: `LegacyFiftyOneDatasetImporter` in
`fiftyone/utils/data/importers.py` of 1.22.1, which all releases since 0.8 have. Coordinates are
fractions of the image; a mask covers its bounding box.
"""

import base64
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from harness.errors import UsageError, counted
from harness.leaderboards.export.instances import Instance, scored_samples
from harness.leaderboards.images import describe_answer, mask_of
from harness.leaderboards.row import row
from harness.masks import BoolArray
from harness.media import Media, encoded_frame, files_of
from harness.record import Run
from harness.store.atomic import write_bytes, writing
from harness.types import Answer, Box

Labels: TypeAlias = dict[str, object]
TARGET = "target"
"""Label of every object: a question asks for one thing."""


def to_fiftyone(
    runs: Sequence[Run], folder: Path, data_root: Path | None, note: Callable[[str], None]
) -> None:
    """Write a dataset for each run's images, and one for its videos that are one file.

    Args:
        runs: Finished runs.
        folder: Receives `<model>_<run>_images` and `<model>_<run>_videos`, as far as there are any.
        data_root: Folder of the benchmarks; None: where the runs read them.
        note: Receives the number of images and videos that cannot be read, and are left out.

    Raises:
        UsageError: two runs have one name.
        HarnessError: the data is not there, or is other data.
    """
    folders: set[Path] = set()
    for run in runs:
        run_row = row(run)
        stem = folder / re.sub(r"[^\w.-]+", "-", f"{run_row.name}_{run_row.run}")
        if stem in folders:
            raise UsageError(
                f"the folder {stem}",
                expected="one run",
                found="two",
                fix="Export them one by one, each with its own --out.",
            )
        folders.add(stem)
        info = {"task": run_row.task, "model": run_row.model_spec, "protocol": run_row.protocol}
        all_instances = scored_samples(run, data_root)
        media = [medium for instance in all_instances for medium in instance.sample.query.media]
        if n_unreadable := sum(medium.fault is not None for medium in media):
            left_out = counted(n_unreadable, "image or video", "images or videos")
            note(f"{run.folder}: without {left_out} that cannot be read")
        for media_type, samples_of in (("image", _images), ("video", _videos)):
            dataset = stem.with_name(f"{stem.name}_{media_type}s")
            with writing(dataset):
                samples = [
                    {**_fields(instance), **sample}
                    for instance in all_instances
                    for sample in samples_of(instance, dataset)
                ]
                if samples:
                    _write(dataset / "samples.json", {"samples": samples})
                    _write(dataset / "metadata.json", {"media_type": media_type, "info": info})


def _write(path: Path, plain: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, json.dumps(plain, ensure_ascii=False, allow_nan=False).encode())


def _fields(instance: Instance) -> Labels:
    """Return what holds for the whole question; fields without a value are left out."""
    sample, prediction = instance.sample, instance.prediction
    failure = prediction.failure
    fields: Labels = {
        "tags": [f"{name}: {value}" for name, value in sample.categories.items()],
        "question_id": sample.id,
        "question": sample.query.text,
        "options": list(sample.query.options) or None,
        "group": sample.group,
        "score": instance.score,
        "response": "\n\n".join(prediction.responses) or None,
        "failure": None if failure is None else f"{failure.kind}: {failure.message}",
    }
    for field, answer in _answers(instance).items():
        if answer_text := _words(answer):
            fields[f"{field}_answer"] = {"_cls": "Classification", "label": answer_text}
    return {name: value for name, value in fields.items() if value is not None}


def _answers(instance: Instance) -> Mapping[str, Answer]:
    target = instance.sample.target
    answers = {
        "ground_truth": None if target is None else target.answer,
        "prediction": instance.prediction.answer,
    }
    return {field: answer for field, answer in answers.items() if answer is not None}


def _words(answer: Answer) -> str:
    """Return the parts of an answer that are not drawn, such as `choice B`; may be empty."""
    cleared: dict[str, Any] = dict.fromkeys(("masks", "soft_masks", "boxes", "points", "box_track"))
    return describe_answer(replace(answer, **cleared, instances=None, box_scores=None))


def _is_video_file(medium: Media) -> bool:
    return medium.is_video and len(files_of(medium)) == 1 and encoded_frame(medium, 0) is None


def _videos(instance: Instance, folder: Path) -> Iterator[Labels]:
    """Yield the fields of each video file, and write the labels of its frames, from frame 1."""
    for number, medium in enumerate(instance.sample.query.media):
        if medium.fault is not None or not _is_video_file(medium):
            continue
        path = Path("frames") / f"{instance.sample.query.id}-{number}.json"
        frames = {
            str(index + 1): {"frame_number": index + 1, **labels}
            for index in range(len(medium))
            if number == 0 and (labels := _labels(instance, index, medium.size))
        }
        _write(folder / path, {"frames": frames})
        yield {"filepath": str(files_of(medium)[0].resolve()), "frames": path.as_posix()}


def _images(instance: Instance, folder: Path) -> Iterator[Labels]:
    """Yield the fields of each image or frame; write those that are not files as PNG."""
    for number, medium in enumerate(instance.sample.query.media):
        if medium.fault is not None or _is_video_file(medium):
            continue
        paths = files_of(medium)
        for index in range(len(medium)):
            if len(paths) == len(medium):
                path = paths[index].resolve()
            else:
                path = Path("data") / f"{medium.id}-{index}.png"
                if not (folder / path).exists():
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    Image.fromarray(medium.frame(index)).save(folder / path)
            frame_field: Labels = {"frame_number": index + 1} if medium.is_video else {}
            labels = _labels(instance, index, medium.size) if number == 0 else {}
            yield {"filepath": str(path), **frame_field, **labels}


def _labels(instance: Instance, index: int, size: tuple[int, int]) -> Labels:
    """Return the objects and points of a frame, for ground truth and prediction.

    Coordinates of an answer are those of the question's first image or video, whose frame `index`
    this is, of `size` (width, height) in pixels.
    """
    labels: Labels = {}
    for field, answer in _answers(instance).items():
        if objects := _detections(answer, index, size):
            labels[field] = {"_cls": "Detections", "detections": objects}
        points = answer.points or () if index == 0 else ()
        if points:
            positions = [[point.x / size[0], point.y / size[1]] for point in points]
            keypoint = {"_cls": "Keypoint", "label": TARGET, "points": positions}
            labels[f"{field}_points"] = {"_cls": "Keypoints", "keypoints": [keypoint]}
    return labels


def _detections(answer: Answer, index: int, size: tuple[int, int]) -> list[Labels]:
    """Return the objects of a frame: its masks or, if it has none, its boxes.

    Args:
        answer: The ground truth or a prediction.
        index: Index of the frame in the video, from 0.
        size: (width, height) of the frame in pixels.
    """
    objects: list[Labels | None]
    if answer.instances is not None:
        masks = [track[index : index + 1] for track in answer.instances]
        objects = [_of_mask(mask[0].to_array()) if mask else None for mask in masks]
    elif (mask := mask_of(answer, index)) is not None:
        objects = [_of_mask(mask)]
    else:
        boxes: list[Box | None] = [
            *(answer.boxes or () if index == 0 else ()),
            *(answer.box_track or ())[index : index + 1],
        ]
        objects = [None if box is None else _of_box(box, size) for box in boxes]
    scores: Sequence[float | None] = answer.box_scores or ()
    if len(scores) != len(objects):
        scores = [None] * len(objects)
    return [
        plain if score is None else {**plain, "confidence": score}
        for plain, score in zip(objects, scores, strict=True)
        if plain is not None
    ]


def _of_box(box: Box, size: tuple[int, int]) -> Labels:
    sides = (box.right - box.left, box.bottom - box.top)
    numbers = (box.left / size[0], box.top / size[1], sides[0] / size[0], sides[1] / size[1])
    return {"_cls": "Detection", "label": TARGET, "bounding_box": list(map(float, numbers))}


def _of_mask(mask: BoolArray) -> Labels | None:
    """Return the object of a mask (height × width); None if the mask is empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return None
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    left, right = int(columns[0]), int(columns[-1]) + 1
    saved = io.BytesIO()
    np.save(saved, mask[top:bottom, left:right], allow_pickle=False)
    packed = base64.b64encode(zlib.compress(saved.getvalue())).decode("ascii")
    box = _of_box(Box(left, top, right, bottom), (mask.shape[1], mask.shape[0]))
    return {**box, "mask": packed}

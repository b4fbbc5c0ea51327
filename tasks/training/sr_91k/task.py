"""SR-91k (Ouyang et al., SpaceR, 2025): spatial training questions about ScanNet rooms, with maps.

A line of `SR-91k.jsonl`, or of `SpaceR-151k.jsonl`, which has 60,000 questions of Video-R1 as well:

    {"problem_id": 1, "problem": "… what is the direct distance between the door and the jacket …?",
     "data_type": "video", "problem_type": "numerical", "options": [],
     "solution": "<answer>0.3507</answer>", "path": "…/scene0024_02.mp4",
     "data_source": "SR_dataset"}

A line of `cognitive_map.jsonl` maps the room of a video to a 10 × 10 grid: [column, row] of the
cells that its objects are in:

    {"video_id": "scene0024_02", "cognitive_map": {"table": [[0, 3], [5, 7]]}, "object_list": […]}
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal

from harness.errors import DataError
from harness.layout import folder, read_by_id
from harness.spec import Spec
from harness.task import Task, choose
from harness.tasks.qa.questions import Question
from harness.tasks.qa.task import Videos, question_task
from harness.tasks.training.question_set import FORMS, question_set
from harness.tasks.training.scoring import ANSWERS as PROTOCOLS
from harness.tasks.training.subsets import RandomSubset

FIX = "`harness list tasks sr_91k` prints the source of the data."
FILES = ("SR-91k.jsonl", "SpaceR-151k.jsonl")
MAPS_FILE = "cognitive_map.jsonl"
SPACER_SOURCE = "SR_dataset"  # `data_source` of SpaceR's own questions
GRID_SIDE = 10  # cells of a map along each side

Map = Mapping[str, list[list[float]]]
"""Cells [column, row] that objects are in, by the object's name."""


def sr_91k(
    data: Path,
    *,
    split: Literal["train"] = "train",
    sample: int | None = None,
    seed: int = 0,
    frames: int | Spec | None = None,
    protocol: str = "train/answers",
) -> Task:
    """One sample per question; `extra["map"]` has its video's map, the query the map's objects.

    Args:
        sample: Number of questions, drawn uniformly by `seed`; by default all.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
        protocol: `train/answers`, for curves.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "sr_91k", fix=FIX)
    path = next((root / name for name in FILES if (root / name).is_file()), None)
    if path is None:
        raise DataError(f"folder {root}", expected=" or ".join(FILES), found="neither", fix=FIX)
    maps_file = root / MAPS_FILE
    maps = read_maps(maps_file) if maps_file.is_file() else {}
    videos = Videos((root,), frames)
    question_format = question_set(
        "sr_91k",
        path,
        videos,
        RandomSubset(sample, seed),
        is_selected=_is_spatial,
        extended=partial(_with_map, maps),
        other_files=(maps_file,) if maps_file.is_file() else (),
    )
    return question_task(
        question_format,
        "sr_91k",
        version=2,
        protocol=scoring,
        split=split,
        forms=FORMS,
        arguments={
            "sample": sample,
            "seed": seed,
            "frames": str(videos.selection),
            "maps": len(maps),
        },
    )


def _is_spatial(question: Question) -> bool:
    """Return True for SpaceR's own questions; a file that has no others may omit `data_source`."""
    return question.row.get("data_source", "") in ("", SPACER_SOURCE)


def _with_map(maps: Mapping[str, Map], question: Question) -> Question:
    """Add the map of a question's video, if there is one; `maps` are by the video file's stem."""
    video_map = maps.get(PurePosixPath(question.group).stem)
    if video_map is None:
        return question
    return replace(question, objects=tuple(video_map), extra={**question.extra, "map": video_map})


def read_maps(path: Path) -> dict[str, Map]:
    """Return the maps by video.

    Raises:
        DataError: a line has no map, a cell is not in the grid, or a video comes twice.
    """
    return read_by_id(path, "video_id", "cognitive_map", _read_map)


def _read_map(plain: object, where: str) -> Map:
    """Return a map after a check of its cells."""
    if not isinstance(plain, dict):
        raise DataError(where, expected="cells by object", found=repr(plain)[:60])
    for name, cells in plain.items():
        if not isinstance(cells, list) or not all(map(_is_cell, cells)):
            raise DataError(
                f"{where}: {name!r}",
                expected=f"cells [column, row] from 0 to {GRID_SIDE}",
                found=repr(cells)[:60],
            )
    return plain


def _is_cell(value: object) -> bool:
    """Return True for two numbers from 0 to GRID_SIDE."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(number) in (int, float) and 0 <= number <= GRID_SIDE for number in value)
    )

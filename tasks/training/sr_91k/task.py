"""SR-91k (Ouyang et al., SpaceR, 2025): questions of space about ScanNet's rooms, with grid maps.

A line of `SR-91k.jsonl`, or of `SpaceR-151k.jsonl`, which has 60,000 questions of Video-R1 as well:

    {"problem_id": 1, "problem": "… what is the direct distance between the door and the jacket …?",
     "data_type": "video", "problem_type": "numerical", "options": [],
     "solution": "<answer>0.3507</answer>", "path": "…/scene0024_02.mp4",
     "data_source": "SR_dataset"}

and of `cognitive_map.jsonl`, the cells of a 10 × 10 grid that objects of a video are in:

    {"video_id": "scene0024_02", "cognitive_map": {"table": [[0, 3], [5, 7]]}, "object_list": […]}
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

from harness.errors import DataError
from harness.layout import field, folder
from harness.spec import Spec
from harness.task import Task, choose
from harness.tasks.qa.tables import records
from harness.tasks.qa.videos import FrameSelection
from harness.tasks.training.question_set import FORMS, QuestionSet
from harness.tasks.training.questions import TrainingQuestion
from harness.tasks.training.scoring import ANSWERS as PROTOCOLS
from harness.tasks.training.subsets import RandomSubset

FIX = "`harness list tasks sr_91k` says where the data is had."
FILES = ("SR-91k.jsonl", "SpaceR-151k.jsonl")
MAPS = "cognitive_map.jsonl"
SOURCE = "SR_dataset"
GRID = 10

Map = Mapping[str, list[list[float]]]


def sr_91k(
    data: Path,
    *,
    split: Literal["train"] = "train",
    sample: int | None = None,
    seed: int = 0,
    frames: int | Spec | None = None,
    protocol: str = "train/answers",
) -> Task:
    """One sample a question; where there is a map, `extra["map"]` has it and the query its objects.

    Args:
        sample: Only so many of them, drawn uniformly by `seed`.
        frames: Which frames of a video there are: a rule of `harness.frames`; all, without.
        protocol: `train/answers`, for curves.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "sr_91k", fix=FIX)
    path = next((place / name for name in FILES if (place / name).is_file()), None)
    if path is None:
        raise DataError(f"folder {place}", expected=" or ".join(FILES), found="neither", fix=FIX)
    listed = place / MAPS
    maps = read_maps(listed) if listed.is_file() else {}
    questions = QuestionSet(
        name="sr_91k",
        path=path,
        root=place,
        selection=FrameSelection(frames),
        sampled=RandomSubset(sample, seed),
        is_selected=_is_spatial,
        more=lambda question: _map(question, maps),
        objects=lambda question: tuple(maps.get(video_of(question), ())),
    )
    return Task(
        name="sr_91k",
        version=2,
        split=split,
        forms=FORMS,
        protocol=scoring,
        samples=questions.samples,
        annotations=(path, listed) if listed.is_file() else (path,),
        check=questions.check,
        arguments={
            "split": split,
            "sample": sample,
            "seed": seed,
            "frames": str(questions.selection),
            "protocol": protocol,
            "maps": len(maps),
        },
    )


def _is_spatial(question: TrainingQuestion) -> bool:
    """Return True if a question is SpaceR's own; a file of these alone may omit its source."""
    return question.source in ("", SOURCE)


def video_of(question: TrainingQuestion) -> str:
    """The name by which maps know a question's video.

    It is the file's name without its suffix.
    """
    return PurePosixPath(question.path).stem


def _map(question: TrainingQuestion, maps: Mapping[str, Map]) -> dict[str, object]:
    found = maps.get(video_of(question))
    return {} if found is None else {"map": found}


def read_maps(path: Path) -> dict[str, Map]:
    """Maps by video.

    Raises:
        DataError: a line has no map, a cell is not in the grid, or a video comes twice.
    """
    found: dict[str, Map] = {}
    for where, plain in records(path, {"video_id": "video", "cognitive_map": "cells"}):
        video = field(plain, "video_id", str, where)
        if video in found:
            raise DataError(f"{where}: 'video_id'", expected="each video once", found=video[:60])
        cells = field(plain, "cognitive_map", dict, where)
        for name, spots in cells.items():
            if not isinstance(spots, list) or not all(map(_is_cell, spots)):
                raise DataError(
                    f"{where}: {name!r}",
                    expected=f"cells [column, row] from 0 to {GRID}",
                    found=repr(spots)[:60],
                )
        found[video] = cells
    return found


def _is_cell(spot: object) -> bool:
    return (
        isinstance(spot, list)
        and len(spot) == 2
        and all(type(one) in (int, float) and 0 <= one <= GRID for one in spot)
    )

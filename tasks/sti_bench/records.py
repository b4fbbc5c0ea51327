"""Rows of STI-Bench's `qa.parquet`, checked, and which of them ask for a number."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.errors import DataError
from harness.metrics.choices import LETTERS
from harness.tasks.spatial.tables import number, records, text

COLUMNS = {
    "Video": "the video's file name", "ID": "number in the video", "Task": "one of eight",
    "Question": "question", "Candidates": "options by letter", "Answer": "the right letter",
    "time_start": "seconds", "time_end": "seconds",
}  # fmt: skip
OPTIONAL = {"Source": "data set", "Scene": "kind of place", "scene": "kind of place"}

STATIC = ("Dimensional Measurement", "Spatial Relation", "3D Video Grounding")
DYNAMIC = (
    "Displacement & Path Length",
    "Speed & Acceleration",
    "Ego-Centric Orientation",
    "Trajectory Description",
    "Pose Estimation",
)
KIND_OF_TASK: Mapping[str, str] = MappingProxyType(
    {**dict.fromkeys(STATIC, "static"), **dict.fromkeys(DYNAMIC, "dynamic")}
)

QUANTITY = re.compile(
    r"\s*([-+]?\d+(?:\.\d+)?)\s*([°%]|[^\W\d_](?:[^\W\d_]|[./²³° -])*(?:\^?-?[23])?)\s*\Z"
)


@dataclass(frozen=True, slots=True)
class Record:
    """One question."""

    id: str
    """`Video|ID|time_start|time_end`, as the official scripts tell questions apart."""
    video: str
    task: str
    question: str
    options: Mapping[str, str]
    """By letter, in the order of the letters."""
    answer: str
    start: float
    end: float
    scene: str
    source: str

    def quantity(self) -> tuple[float, str] | None:
        """The right number and its unit, if every option is one number with the same unit.

        At least two options have to differ, and the unit has to be said. This rule is ours.
        """
        found = [quantity(option) for option in self.options.values()]
        units = {each[1].lower() for each in found if each}
        if None in found or len(units) != 1 or len({each[0] for each in found if each}) < 2:
            return None
        return quantity(self.options[self.answer])


def quantity(option: str) -> tuple[float, str] | None:
    """An option that is one number and a unit.

    >>> quantity("0.8 m"), quantity(" -12 degrees "), quantity("1 to 2 m"), quantity("red")
    ((0.8, 'm'), (-12.0, 'degrees'), None, None)
    """
    match = QUANTITY.match(option[:200].removesuffix("."))
    if match is None or len(match[1]) > 20:
        return None
    return float(match[1]), " ".join(match[2].split())


def read(path: Path) -> Iterator[Record | DataError]:
    """Every row in order: what was read, or why it cannot be."""
    for where, row in records(path, COLUMNS, optional=OPTIONAL):
        try:
            yield _record(row, where)
        except DataError as error:
            yield error


def _record(row: Mapping[str, Any], where: str) -> Record:
    video, task = text(row, "Video", where), text(row, "Task", where)
    start, end = number(row, "time_start", where), number(row, "time_end", where)
    if task not in KIND_OF_TASK:
        raise DataError(f"{where}: 'Task'", expected=f"one of {', '.join(KIND_OF_TASK)}",
                        found=repr(task)[:60])  # fmt: skip
    options, answer = _options(row["Candidates"], where), text(row, "Answer", where)
    if answer not in options:
        raise DataError(f"{where}: 'Answer'", expected=f"a letter of {', '.join(options)}",
                        found=repr(answer)[:40])  # fmt: skip
    if not isinstance(row["ID"], (int, str)):
        raise DataError(f"{where}: 'ID'", expected="a number or text", found=repr(row["ID"])[:40])
    named = row.get("scene") or row.get("Scene")
    return Record(
        id=f"{video}|{row['ID']}|{start}|{end}", video=video, task=task,
        question=text(row, "Question", where), options=options, answer=answer, start=start, end=end,
        scene=named if isinstance(named, str) else scene_of(video),
        source=row["Source"] if isinstance(row.get("Source"), str) else "",
    )  # fmt: skip


def _options(value: Any, where: str) -> Mapping[str, str]:
    """Options by letter: a struct (a letter may be null), a map, or either as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: 'Candidates'", expected="options by letter",
                            found=str(error)) from error  # fmt: skip
    pairs = value.items() if isinstance(value, dict) else value
    try:
        given = {key: option for key, option in pairs if option is not None}
    except (TypeError, ValueError):
        given = {}
    letters = list(LETTERS[: len(given)])
    if (
        len(given) < 2
        or sorted(given, key=str) != letters
        or not all(isinstance(option, str) and option.strip() for option in given.values())
    ):
        raise DataError(f"{where}: 'Candidates'", expected="texts by the letters A, B, … to E",
                        found=repr(value)[:60])  # fmt: skip
    return {letter: given[letter].strip() for letter in letters}


def scene_of(video: str) -> str:
    """The kind of place that a file's name tells, as `scene_type` of the official script has it.

    >>> [scene_of(name) for name in ("camera_1.mp4", "scene0011_00.mp4", "000123.mp4", "x.mp4")]
    ['outdoor', 'indoor', 'desktop', 'unknown']
    """
    stem = video.split(".")[0]
    if "camera" in video:
        return "outdoor"
    if video.startswith("scene"):
        return "indoor"
    return "desktop" if stem.isdigit() and len(stem) == 6 else "unknown"

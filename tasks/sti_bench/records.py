"""Read STI-Bench's questions from `qa.parquet`, and turn some into questions for a number.

All questions have options. `in_numbers` is for the task's `form=numeric`: it drops the options of
questions whose options are all quantities of one unit.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.errors import DataError
from harness.metrics.choices import FIVE_LETTERS
from harness.tasks.qa.questions import Fields, Question, read_records
from harness.types import Answer

STATIC_TASKS = ("Dimensional Measurement", "Spatial Relation", "3D Video Grounding")
DYNAMIC_TASKS = (
    "Displacement & Path Length",
    "Speed & Acceleration",
    "Ego-Centric Orientation",
    "Trajectory Description",
    "Pose Estimation",
)
KIND_OF_TASK: Mapping[str, str] = MappingProxyType(
    {**dict.fromkeys(STATIC_TASKS, "static"), **dict.fromkeys(DYNAMIC_TASKS, "dynamic")}
)

QUANTITY_PATTERN = re.compile(
    r"\s*([-+]?\d+(?:\.\d+)?)\s*([°%]|[^\W\d_](?:[^\W\d_]|[./²³° -])*(?:\^?-?[23])?)\s*\Z"
)
"""A number and a unit: "0.8 m", "45°", "-12 m/s^2"; not "1 to 2 m", and not "3" without a unit."""


FIELDS = Fields(
    # The fields by which the official scripts identify a question.
    id="{Video}|{ID}|{time_start}|{time_end}",
    media="{Video}",
    question="Question",
    answer="Answer",
    options="Candidates",
    max_options=len(FIVE_LETTERS),
    categories={"task": "Task"},
    allowed_values={"Task": tuple(KIND_OF_TASK)},
)
COLUMNS = FIELDS.columns
OPTIONAL_COLUMNS = {"Source": "data set", "Scene": "kind of place", "scene": "kind of place"}


def read_questions(path: Path) -> Iterator[Question | DataError]:
    """Yield the question of each row in order, or its error."""
    return read_records((path,), COLUMNS, _question, optional=OPTIONAL_COLUMNS)


def _question(row: Mapping[str, Any], where: str) -> Question:
    """Return the question of a row, with its categories."""
    options = _options(row["Candidates"], where)
    question = FIELDS.read_record({**row, "Candidates": options}, where)
    scene, source = row.get("scene") or row.get("Scene"), row.get("Source")
    categories = {
        **question.categories,
        "kind": KIND_OF_TASK[row["Task"]],
        "scene": scene if isinstance(scene, str) else scene_of(row["Video"]),
        "source": source if isinstance(source, str) else "",
    }
    return replace(question, categories=categories)


def in_numbers(question: Question) -> Question | None:
    """Return the question as one for a number, without its options, or None if it has no such form.

    It has if its options are all numbers of one unit, and not all equal; this rule is our own. The
    unit is added to the question's row as `unit`, for the prompt.
    """
    parsed = [quantity(option) for option in question.options]
    quantities = [pair for pair in parsed if pair is not None]
    values, units = {value for value, _ in quantities}, {unit.lower() for _, unit in quantities}
    if len(quantities) < len(parsed) or len(units) != 1 or len(values) < 2:
        return None
    assert question.answer is not None and question.answer.choice is not None
    value, unit = quantities[FIVE_LETTERS.index(question.answer.choice)]
    return replace(
        question, options=(), answer=Answer(number=value), row={**question.row, "unit": unit}
    )


def quantity(option: str) -> tuple[float, str] | None:
    """Return the number and the unit of an option; None if it is anything else.

    >>> quantity("0.8 m"), quantity(" -12 degrees "), quantity("1 to 2 m"), quantity("red")
    ((0.8, 'm'), (-12.0, 'degrees'), None, None)
    """
    match = QUANTITY_PATTERN.match(option[:200].removesuffix("."))
    if match is None or len(match[1]) > 20:
        return None
    return float(match[1]), " ".join(match[2].split())


def _options(value: Any, where: str) -> list[str]:
    """Return the options in the order of their letters, from a cell of `Candidates`.

    The cell is a struct by letter (options may be null), a list of (letter, option) pairs, or JSON
    of either.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{where}: 'Candidates'", expected="options by letter", found=str(error)
            ) from error
    pairs = value.items() if isinstance(value, dict) else value
    try:
        by_letter = {key: option for key, option in pairs if option is not None}
    except (TypeError, ValueError):
        by_letter = {}
    letters = list(FIVE_LETTERS[: len(by_letter)])
    if (
        len(by_letter) < 2
        or sorted(by_letter, key=str) != letters
        or not all(isinstance(option, str) and option.strip() for option in by_letter.values())
    ):
        raise DataError(
            f"{where}: 'Candidates'",
            expected="texts by the letters A, B, … to E",
            found=repr(value)[:60],
        )
    return [by_letter[letter].strip() for letter in letters]


def scene_of(video: str) -> str:
    """Return the kind of place by a video's file name, as `scene_type` of the official script.

    >>> [scene_of(name) for name in ("camera_1.mp4", "scene0011_00.mp4", "000123.mp4", "x.mp4")]
    ['outdoor', 'indoor', 'desktop', 'unknown']
    """
    stem = video.split(".")[0]
    if "camera" in video:
        return "outdoor"
    if video.startswith("scene"):
        return "indoor"
    return "desktop" if stem.isdigit() and len(stem) == 6 else "unknown"

"""Rows of STI-Bench's `qa.parquet`, checked, and the ones that ask for a number."""

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

# A number, then a unit: a sign, or letters with powers and parts, such as m/s² or km/h.
QUANTITY = re.compile(
    r"\s*([-+]?\d+(?:\.\d+)?)\s*([°%]|[^\W\d_](?:[^\W\d_]|[./²³° -])*(?:\^?-?[23])?)\s*\Z"
)


FIELDS = Fields(
    # As the official scripts tell questions apart.
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
OPTIONAL = {"Source": "data set", "Scene": "kind of place", "scene": "kind of place"}


def read_questions(path: Path) -> Iterator[Question | DataError]:
    """Yield every row in order: its question, or the error that it has."""
    return read_records((path,), COLUMNS, _question, optional=OPTIONAL)


def _question(row: Mapping[str, Any], where: str) -> Question:
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
    """Return the question for a number, without its options.

    None: the options are not all numbers of one unit, or all are equal. This rule is our own. The
    unit is the `unit` of the question's row, and the prompt names it.
    """
    quantities = [quantity(option) for option in question.options]
    known = [pair for pair in quantities if pair is not None]
    values, units = {value for value, _ in known}, {unit.lower() for _, unit in known}
    if len(known) < len(quantities) or len(units) != 1 or len(values) < 2:
        return None
    assert question.answer is not None and question.answer.choice is not None
    value, unit = known[FIVE_LETTERS.index(question.answer.choice)]
    return replace(
        question, options=(), answer=Answer(number=value), row={**question.row, "unit": unit}
    )


def quantity(option: str) -> tuple[float, str] | None:
    """Return the number and the unit of an option; None if it is anything else.

    >>> quantity("0.8 m"), quantity(" -12 degrees "), quantity("1 to 2 m"), quantity("red")
    ((0.8, 'm'), (-12.0, 'degrees'), None, None)
    """
    match = QUANTITY.match(option[:200].removesuffix("."))
    if match is None or len(match[1]) > 20:
        return None
    return float(match[1]), " ".join(match[2].split())


def _options(value: Any, where: str) -> list[str]:
    """Return the options of a struct (a letter may be null), a map, or JSON of either, in order."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{where}: 'Candidates'", expected="options by letter", found=str(error)
            ) from error
    pairs = value.items() if isinstance(value, dict) else value
    try:
        given = {key: option for key, option in pairs if option is not None}
    except (TypeError, ValueError):
        given = {}
    letters = list(FIVE_LETTERS[: len(given)])
    if (
        len(given) < 2
        or sorted(given, key=str) != letters
        or not all(isinstance(option, str) and option.strip() for option in given.values())
    ):
        raise DataError(
            f"{where}: 'Candidates'",
            expected="texts by the letters A, B, … to E",
            found=repr(value)[:60],
        )
    return [given[letter].strip() for letter in letters]


def scene_of(video: str) -> str:
    """Return the kind of place from a file's name, as `scene_type` of the official script does.

    >>> [scene_of(name) for name in ("camera_1.mp4", "scene0011_00.mp4", "000123.mp4", "x.mp4")]
    ['outdoor', 'indoor', 'desktop', 'unknown']
    """
    stem = video.split(".")[0]
    if "camera" in video:
        return "outdoor"
    if video.startswith("scene"):
        return "indoor"
    return "desktop" if stem.isdigit() and len(stem) == 6 else "unknown"

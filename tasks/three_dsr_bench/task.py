"""3DSRBench: questions on height, location, orientation and several objects, each asked once.

A row of `3dsr/test-*.parquet`: `{"index": "VIN6MS3J", "image": …, "question": "…", "A": "yes",
"B": "no", "C": null, "D": null, "answer": "A", "category": "height_higher"}`
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from harness.metrics.letter_readers import three_dsr_choice
from harness.task import Task, choose
from harness.tasks.qa.images import image_task, images_of, lettered_question, parts
from harness.tasks.qa.letters import letter_protocols
from harness.tasks.qa.questions import Question, fill_pattern
from harness.tasks.qa.tables import text

FIX = "`harness list tasks three_dsr_bench` says where the data is had."
COLUMNS = dict.fromkeys(("index", "image", "question", *"ABCD", "answer", "category"), "field")
KINDS = ("height", "location", "orientation", "multi_object")


def three_dsr_bench(
    data: Path, *, split: Literal["test"] = "test", protocol: str = "3dsr/official"
) -> Task:
    """One sample a question; `protocol` is `3dsr/official` or `3dsr/strict`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "three_dsr_bench"
    files = parts(place, "3dsr/test-*.parquet", fix=FIX)
    make = partial(_question, place)
    return image_task("three_dsr_bench", files, COLUMNS, make, protocol=scoring, split=split)


def _question(place: Path, row: Mapping[str, object], where: str) -> Question:
    category = text(row, "category", where)
    kind = next((kind for kind in KINDS if category.startswith(kind)), "other")
    options = [row[letter] for letter in "ABCD"]
    return lettered_question(
        row,
        where,
        id=fill_pattern("{index}", row, where),
        media=images_of(row["image"], where, place),
        options=[one for one in options if one is not None and str(one).lower() != "nan"],
        categories={"category": category, "kind": kind},
    )


PROTOCOLS = letter_protocols(
    "3dsr", three_dsr_choice, official="lmms-eval: the first letter A to D of the first form"
)

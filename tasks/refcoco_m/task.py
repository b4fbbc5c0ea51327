"""RefCOCO-M: RefCOCO's validation expressions with masks drawn anew, where they could be repaired.

A row of `data/validation-*.parquet` is an image with its objects:

    {"image": …, "image_id": 581857, "file_name": "…", "samples": [{"id": 1719310,
     "category": "person", "sentences": ["lady in black"], "bbox": […],
     "mask": {"counts": "…", "size": [428, 640]}}]}
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.layout import field
from harness.masks import Rle
from harness.task import Task, choose
from harness.tasks.qa.questions import fill_pattern, read_records
from harness.tasks.qa.tables import images_of
from harness.tasks.qa.task import parts
from harness.tasks.refer.scoring import EXPRESSION
from harness.tasks.segmentation.task import Phrase, Phrases, segmentation_task

COLUMNS = {"image": "image", "image_id": "number", "samples": "objects"}
PROTOCOLS = {"res/expression": EXPRESSION}


def refcoco_m(
    data: Path,
    *,
    split: Literal["validation"] = "validation",
    protocol: str = "res/expression",
) -> Task:
    """One sample an expression; statistics cluster by image. `protocol` is `res/expression`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "refcoco_m"
    files = parts(place, f"data/{split}-*.parquet", "refcoco_m")
    phrases = Phrases(files=files, read=partial(_phrases, place, files))
    return segmentation_task(phrases, "refcoco_m", protocol=scoring, split=split)


def _phrases(place: Path, files: tuple[Path, ...]) -> Iterator[Phrase | DataError]:
    for phrases in read_records(files, COLUMNS, partial(_of_image, place)):
        yield from (phrases,) if isinstance(phrases, DataError) else phrases


def _of_image(place: Path, row: Mapping[str, object], where: str) -> list[Phrase]:
    """Every expression of an image; ids are `object/number of the expression`."""
    (image,) = images_of(row["image"], f"{where}: 'image'", place)
    phrases = []
    for thing in field(row, "samples", list, where):
        id = fill_pattern("{id}", thing if isinstance(thing, dict) else {}, where)
        named = f"{where}, object {id}"
        mask = Rle.from_json(field(thing, "mask", dict, named), f"{named}: 'mask'")
        for number, sentence in enumerate(field(thing, "sentences", list, named)):
            phrases.append(
                Phrase(
                    id=f"{id}/{number}",
                    text=_text(sentence, named),
                    image=image,
                    mask=mask,
                    group=fill_pattern("{image_id}", row, where),
                    where=named,
                    categories={"category": str(thing.get("category") or "")},
                )
            )
    return phrases


def _text(sentence: Any, where: str) -> str:
    """An expression: a text, or an object with the text `sent`, as refer's files have it."""
    text = sentence.get("sent") if isinstance(sentence, dict) else sentence
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where}: 'sentences'", expected="texts", found=repr(sentence)[:60])
    return text.strip()

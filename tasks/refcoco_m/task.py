"""RefCOCO-M: the expressions of RefCOCO's validation set with corrected masks.

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
from harness.tasks.qa.task import split_files
from harness.tasks.refer.scoring import EXPRESSION
from harness.tasks.segmentation.task import Phrase, Phrases, segmentation_task

COLUMNS = {"image": "image", "image_id": "number", "samples": "objects"}  # with their content
PROTOCOLS = {"res/expression": EXPRESSION}


def refcoco_m(
    data: Path,
    *,
    split: Literal["validation"] = "validation",
    protocol: str = "res/expression",
) -> Task:
    """One sample per expression; statistics cluster by image. `protocol` is `res/expression`."""
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = data / "refcoco_m"
    files = split_files(root, f"data/{split}-*.parquet", "refcoco_m")
    phrases = Phrases(files=files, read=partial(_phrases, root, files))
    return segmentation_task(phrases, "refcoco_m", protocol=scoring, split=split)


def _phrases(root: Path, files: tuple[Path, ...]) -> Iterator[Phrase | DataError]:
    """Yield the phrases of each row, or the row's error."""
    for phrases in read_records(files, COLUMNS, partial(_of_image, root)):
        yield from (phrases,) if isinstance(phrases, DataError) else phrases


def _of_image(root: Path, row: Mapping[str, object], row_where: str) -> list[Phrase]:
    """Return the phrases about an image; ids are `object/number of the expression`."""
    (image,) = images_of(row["image"], f"{row_where}: 'image'", root)
    phrases = []
    for entry in field(row, "samples", list, row_where):
        id = fill_pattern("{id}", entry if isinstance(entry, dict) else {}, row_where)
        where = f"{row_where}, object {id}"
        mask = Rle.from_json(field(entry, "mask", dict, where), f"{where}: 'mask'")
        for number, sentence in enumerate(field(entry, "sentences", list, where)):
            phrases.append(
                Phrase(
                    id=f"{id}/{number}",
                    text=_text(sentence, where),
                    image=image,
                    mask=mask,
                    group=fill_pattern("{image_id}", row, row_where),
                    where=where,
                    categories={"category": str(entry.get("category") or "")},
                )
            )
    return phrases


def _text(sentence: Any, where: str) -> str:
    """Return an expression, which is a text, or an object with the text `sent` as in refer."""
    text = sentence.get("sent") if isinstance(sentence, dict) else sentence
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where}: 'sentences'", expected="texts", found=repr(sentence)[:60])
    return text.strip()

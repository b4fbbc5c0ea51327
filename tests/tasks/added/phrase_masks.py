"""A benchmark of phrases and masks, in as little as one takes: lines of JSON that name an image
and an image of its mask.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from harness.layout import field, file, path_inside
from harness.task import Task, choose
from harness.tasks.qa.questions import read_records
from harness.tasks.segmentation.protocols import PROTOCOLS
from harness.tasks.segmentation.task import Phrase, Phrases, read_mask_image, segmentation_task

COLUMNS = {"id": "number", "phrase": "what is meant", "image": "file", "mask": "file"}


def phrase_masks(
    data: Path, *, split: Literal["val", "test"] = "val", protocol: str = "seg/lisa"
) -> Task:
    """One sample a phrase; statistics cluster by image."""
    place = data / "phrase_masks"
    listed = file(place / f"{split}.jsonl", fix="See https://phrases.invalid.")
    make = partial(phrase, place)
    phrases = Phrases(files=(listed,), read=partial(read_records, (listed,), COLUMNS, make))
    return segmentation_task(
        phrases, "phrase_masks", protocol=choose("protocol", PROTOCOLS, protocol), split=split
    )


def phrase(place: Path, row: Mapping[str, Any], where: str) -> Phrase:
    """A line's phrase, and the mask that it names."""
    image, mask = (path_inside(place, field(row, name, str, where)) for name in ("image", "mask"))
    return Phrase(
        id=str(field(row, "id", int, where)),
        text=field(row, "phrase", str, where),
        image=image,
        mask=read_mask_image(mask),
        where=where,
    )

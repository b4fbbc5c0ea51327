"""A small benchmark of phrases and masks: a line of JSON names an image and its mask."""

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
    """Return the task: one sample for each phrase; samples of one image are a group."""
    root = data / "phrase_masks"
    listed = file(root / f"{split}.jsonl", fix="See https://phrases.invalid.")
    make = partial(phrase, root)
    phrases = Phrases(files=(listed,), read=partial(read_records, (listed,), COLUMNS, make))
    return segmentation_task(
        phrases, "phrase_masks", protocol=choose("protocol", PROTOCOLS, protocol), split=split
    )


def phrase(root: Path, row: Mapping[str, Any], where: str) -> Phrase:
    """Return the phrase of a line, with its mask."""
    image, mask = (path_inside(root, field(row, name, str, where)) for name in ("image", "mask"))
    return Phrase(
        id=str(field(row, "id", int, where)),
        text=field(row, "phrase", str, where),
        image=image,
        mask=read_mask_image(mask),
        where=where,
    )

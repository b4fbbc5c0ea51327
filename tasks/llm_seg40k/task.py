"""LLM-Seg40K (Wang and Ke, 2024): segment the answer to a question about an image.

A language model wrote questions and answers; the masks are by SAM. A split is one JSON file, by
name of the image:

    {"000000123456.jpg": {"from_dataset": "coco", "qa_pairs": [
        {"question": "What could I sit on?", "answer": "The wooden chair.",
         "rle_seg": {"size": [480, 640], "counts": "…"}}]}}

In place of `rle_seg` an entry may have `segmentation_path`, a grey image of the mask.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.layout import Entry, JsonFile, field, file, folder, path_inside
from harness.masks import Rle
from harness.task import Protocol, Task, choose
from harness.tasks.llm_seg40k.scoring import PROTOCOLS
from harness.tasks.segmentation.task import Phrase, Phrases, read_mask_image, segmentation_task

FIX = "`harness list tasks llm_seg40k` prints the source of the data."
FOLDERS = {"coco": "coco/train2017", "ego_objects": "ego_objects/images"}
"""Folders of the images below the benchmark's folder, by `from_dataset`."""
SHAPE_TOLERANCE = 0.02
"""Largest relative difference of the aspect ratios of mask and image: SAM may have made the mask on
a smaller image, with rounded sides."""


def llm_seg40k(
    data: Path,
    *,
    split: Literal["train", "validation", "test"] = "validation",
    protocol: str = "seg/lisa",
) -> Task:
    """One sample per question.

    Args:
        split: The file of `LLMSeg-40K`.
        protocol: `seg/lisa` or `seg/llmseg`; see the card.
    """
    scoring: Protocol = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "llm_seg40k", fix=FIX)
    path = root / "LLMSeg-40K" / f"{split}.json"
    images = JsonFile(file(path, expected="a split's annotations", fix=FIX))
    phrases = Phrases(
        files=(path,), read=partial(_phrases, root, images), tolerance=SHAPE_TOLERANCE
    )
    return segmentation_task(phrases, "llm_seg40k", protocol=scoring, split=split)


def _phrases(root: Path, images: JsonFile) -> Iterator[Phrase | DataError]:
    """Yield the phrases of all images; an error stands for the rest of its image."""
    for entry in images.entries():
        try:
            yield from _of_image(root, entry)
        except DataError as error:
            yield error


def _of_image(root: Path, entry: Entry) -> Iterator[Phrase]:
    """Yield the questions about one image; ids are `name/number of the question`."""
    name = str(entry.key)
    where = f"{entry.path}, image {name!r}"
    plain = entry.parse()
    source = field(plain, "from_dataset", str, where)
    if source not in FOLDERS:
        raise DataError(f"{where}: 'from_dataset'", expected=" or ".join(FOLDERS), found=source)
    for number, pair in enumerate(field(plain, "qa_pairs", list, where)):
        question_where = f"{where}, question {number}"
        yield Phrase(
            id=f"{name}/{number}",
            text=field(pair, "question", str, question_where).strip(),
            image=path_inside(root / FOLDERS[source], name),
            mask=read_mask(pair, question_where, root),
            references=(field(pair, "answer", str, question_where),),
            group=name,
            where=question_where,
            categories={"source": source},
        )


def read_mask(pair: object, where: str, root: Path) -> Rle:
    """Return the mask of a question: its run-length, or the mask image that it names below `root`.

    Raises:
        DataError: it has neither, or the mask is damaged.
    """
    if isinstance(pair, dict) and pair.get("rle_seg") is not None:
        return Rle.from_json(pair["rle_seg"], f"{where}: 'rle_seg'")
    return read_mask_image(path_inside(root, field(pair, "segmentation_path", str, where)))

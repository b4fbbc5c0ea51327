"""LLM-Seg40K (Wang and Ke, 2024): questions and answers by a language model, masks by SAM.

One JSON file a split, by the names of pictures:

    {"000000123456.jpg": {"from_dataset": "coco", "qa_pairs": [
        {"question": "What could I sit on?", "answer": "The wooden chair.",
         "rle_seg": {"size": [480, 640], "counts": "…"}}]}}

In place of `rle_seg` an entry may have `segmentation_path`, a grey picture of the mask.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.errors import DataError, MediaError
from harness.layout import field, folder, inside, read_json
from harness.masks import Rle
from harness.media import Media, decode_image, image, lost
from harness.task import Problem, Protocol, Task, choose
from harness.tasks.llm_seg40k.scoring import PROTOCOLS
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

__all__ = ["PROTOCOLS", "llm_seg40k"]

FIX = "`harness list tasks llm_seg40k` says where the data is had."
FOLDERS = {"coco": "coco/train2017", "ego_objects": "ego_objects/images"}
"""Where the pictures lie below the benchmark's folder, by `from_dataset`."""
SHAPE_TOLERANCE = 0.02  # of the ratio of a mask's sides: sides are whole numbers


def llm_seg40k(
    data: Path,
    *,
    split: Literal["train", "validation", "test"] = "validation",
    protocol: str = "seg/lisa",
) -> Task:
    """One sample a question.

    Args:
        data: The folder that holds one folder a benchmark.
        split: Which file of `LLMSeg-40K`.
        protocol: `seg/lisa` or `seg/llmseg`; see the card.
    """
    scoring: Protocol = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "llm_seg40k", fix=FIX)
    path = root / "LLMSeg-40K" / f"{split}.json"
    if not path.is_file():
        raise DataError(f"file {path}", expected="a split's annotations", found="none", fix=FIX)
    entries = _Entries(root, path)
    return Task(
        name="llm_seg40k",
        version=1,
        split=split,
        forms=(AnswerForm.MASK,),
        protocol=scoring,
        samples=partial(_samples, entries),
        annotations=(path,),
        check=partial(_check, entries),
        arguments={"split": split, "protocol": protocol},
    )


@dataclass(frozen=True)
class _Entries:
    """A split's file, read when it is first needed and kept."""

    root: Path
    path: Path

    @cached_property
    def plain(self) -> dict[str, Any]:
        plain = read_json(self.path)
        if not isinstance(plain, dict):
            raise DataError(f"file {self.path}", expected="an object by the names of pictures",
                            found=type(plain).__name__)  # fmt: skip
        return plain


def _samples(entries: _Entries) -> Iterator[Sample]:
    for name in entries.plain:
        yield from _of_picture(entries, name)


def _of_picture(entries: _Entries, name: str) -> Iterator[Sample]:
    """The questions about one picture; ids are `name/number of the question`."""
    where = f"{entries.path}, picture {name!r}"
    source = field(entries.plain[name], "from_dataset", str, where)
    if source not in FOLDERS:
        raise DataError(f"{where}: 'from_dataset'", expected=" or ".join(FOLDERS), found=source)
    path = inside(entries.root / FOLDERS[source], name)
    for number, pair in enumerate(field(entries.plain[name], "qa_pairs", list, where)):
        place = f"{where}, question {number}"
        mask = read_mask(pair, place, entries.root)
        media = _media(path, mask)
        _refuse_other_shape(mask, media, place)
        yield Sample(
            id=f"{name}/{number}",
            query=Query(
                id=query_id(f"{name}/{number}"), text=field(pair, "question", str, place).strip(),
                media=(media,), forms=(AnswerForm.MASK,),
            ),
            target=Target(
                answer=Answer(masks=(mask,)),
                references=(field(pair, "answer", str, place),),
            ),
            group=name,
            categories={"source": source},
        )  # fmt: skip


def _media(path: Path, mask: Rle) -> Media:
    try:
        return image(path)
    except MediaError as error:
        return lost(error, size=mask.size)


def _refuse_other_shape(mask: Rle, media: Media, where: str) -> None:
    """A mask may be smaller than its picture, as SAM made it, but not of another shape."""
    width, height = media.size
    if abs(mask.width * height - mask.height * width) > SHAPE_TOLERANCE * mask.height * width:
        raise DataError(f"{where}: mask", expected=f"the shape of its picture, {width} × {height}",
                        found=f"{mask.width} × {mask.height}")  # fmt: skip


def read_mask(pair: Any, where: str, root: Path) -> Rle:
    """The mask of a question: its run-length, or the picture that it names below `root`.

    Raises:
        DataError: it has neither, or one that is damaged.
    """
    if isinstance(pair, dict) and pair.get("rle_seg") is not None:
        return Rle.from_json(pair["rle_seg"], f"{where}: 'rle_seg'")
    path = inside(root, field(pair, "segmentation_path", str, where))
    # OpenCV's weights of grey (truncated at 0.5) make no colour black but black.
    return Rle.from_array(np.asarray(decode_image(path, str(path)).any(axis=2)))


def _check(entries: _Entries) -> Iterator[Problem]:
    try:
        names = list(entries.plain)
    except DataError as error:
        yield Problem(str(entries.path), str(error))
        return
    for name in names:
        try:
            for sample in _of_picture(entries, name):
                if fault := sample.query.media[0].fault:
                    yield Problem(f"sample {sample.id!r}", fault)
        except DataError as error:
            yield Problem(f"picture {name!r}", str(error))

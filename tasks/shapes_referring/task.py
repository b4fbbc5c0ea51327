"""shapes_referring: a mask in a generated image for the object that a text describes or implies.

One question a line of `questions.jsonl`; images lie beside it. Every referent has a box (right
and bottom exclusive) and a run-length of its visible part.

    {"id": "referring_00000_0", "image": "images/referring_00000.jpg",
     "question": "Which shape has five points?", "kind": "riddle", "level": "easy",
     "asks": "reasoning", "boxes": [[12, 30, 47, 64]],
     "masks": [{"size": [168, 168], "counts": "…"}]}
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from harness.errors import DataError, ParseError
from harness.layout import field, folder
from harness.masks import Rle
from harness.media import Media
from harness.responses import finite_numbers
from harness.task import Problem, Task, choose
from harness.tasks.shapes import records
from harness.tasks.shapes_referring.scoring import PROTOCOLS
from harness.types import Answer, AnswerForm, Box, Query, Sample, Target, query_id

Asks: TypeAlias = Literal["all", "single", "several", "reasoning"]

FIX = "`harness list tasks shapes_referring` says how the data is made."
CATEGORIES = ("asks", "kind", "level")
ASKS = ("single", "several", "reasoning")


@dataclass(frozen=True, slots=True)
class Record:
    """One line, checked."""

    id: str
    image: Path
    question: str
    boxes: tuple[Box, ...]
    masks: tuple[Rle, ...]
    categories: dict[str, str]


def shapes_referring(
    data: Path,
    *,
    split: Literal["train", "val", "test"] = "val",
    asks: Asks = "all",
    protocol: str = "shapes/referring",
) -> Task:
    """One sample a question.

    Args:
        split: Which scenes; those of `train` never show a combination that is held out.
        asks: All questions, or those for a single thing, for several, or that need reasoning.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "shapes_referring" / split, fix=FIX)
    return Task(
        name="shapes_referring",
        version=1,
        split=split,
        forms=(AnswerForm.MASK,),
        protocol=scoring,
        samples=partial(_samples, place, asks),
        annotations=(place / records.QUESTIONS,),
        check=partial(_check, place),
        arguments={"split": split, "asks": asks, "protocol": protocol},
    )


def _samples(place: Path, asks: Asks) -> Iterator[Sample]:
    for where, line in records.lines(place):
        record = _record(place, line, where)
        if asks not in ("all", record.categories["asks"]):
            continue
        image = records.media([record.image], size=record.masks[0].size)
        _check_size(record, image, where)
        yield Sample(
            id=record.id,
            query=Query(
                id=query_id(record.id),
                text=record.question,
                media=(image,),
                forms=(AnswerForm.MASK,),
            ),
            target=Target(
                answer=Answer(
                    masks=(record.masks[0].union(*record.masks[1:]),),
                    instances=tuple((mask,) for mask in record.masks),
                    boxes=record.boxes,
                )
            ),
            group="/".join(record.image.parts[-3:]),
            categories=record.categories,
        )


def _record(place: Path, line: bytes, where: str) -> Record:
    plain = records.parse(line, where)
    categories = records.categories(plain, CATEGORIES, where)
    if categories["asks"] not in ASKS:
        raise DataError(
            f"{where}: 'asks'", expected=" or ".join(ASKS), found=repr(categories["asks"])[:60]
        )
    boxes = tuple(_box(value, f"{where}: 'boxes'") for value in field(plain, "boxes", list, where))
    masks = tuple(
        Rle.from_json(value, f"{where}: 'masks'") for value in field(plain, "masks", list, where)
    )
    single = categories["asks"] == "single"
    if not masks or len(boxes) != len(masks) or (single and len(masks) > 1):
        raise DataError(
            f"{where}: 'boxes' and 'masks'",
            expected="one each" if single else "as many of both, and at least one",
            found=f"{len(boxes)} and {len(masks)}",
        )
    if len({mask.size for mask in masks}) > 1:
        raise DataError(f"{where}: 'masks'", expected="masks of one size", found="several")
    return Record(
        id=plain["id"],
        image=records.paths(place, [records.read_text(plain, "image", where)])[0],
        question=records.read_text(plain, "question", where),
        boxes=boxes,
        masks=masks,
        categories=categories,
    )


def _box(value: object, where: str) -> Box:
    try:
        box = Box(*finite_numbers(value, 4, where))
    except ParseError as error:
        raise DataError(str(error)) from error
    if not (box.left < box.right and box.top < box.bottom):
        raise DataError(where, expected="left < right and top < bottom", found=repr(value)[:60])
    return box


def _check_size(record: Record, image: Media, where: str) -> None:
    if record.masks[0].size != image.size:
        raise DataError(
            f"{where}: 'masks'",
            expected=f"the image's {image.size} pixels",
            found=str(record.masks[0].size),
        )


def _check(place: Path) -> Iterator[Problem]:
    def look(line: bytes, where: str) -> Iterator[Problem]:
        record = _record(place, line, where)
        problems = list(records.unreadable([record.image]))
        if not problems:
            _check_size(record, records.media([record.image]), where)
        yield from problems

    return records.check(place, look)

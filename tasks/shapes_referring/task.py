"""shapes_referring: segment the object of a generated image that a text describes or implies.

`questions.jsonl` has one question per line; images lie beside it. Every referent has a box in
pixels (right and bottom exclusive) and a run-length of its visible pixels.

    {"id": "referring_00000_0", "image": "images/referring_00000.jpg",
     "question": "Which shape has five points?", "kind": "riddle", "level": "easy",
     "asks": "reasoning", "boxes": [[12, 30, 47, 64]],
     "masks": [{"size": [168, 168], "counts": "…"}]}
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from harness.errors import DataError, ParseError
from harness.layout import field
from harness.masks import Rle
from harness.media import Media
from harness.responses import finite_numbers
from harness.task import Problem, Task
from harness.tasks.qa.images import image_files
from harness.tasks.qa.questions import Fields, Question
from harness.tasks.qa.task import table_task
from harness.tasks.shapes import records
from harness.tasks.shapes_referring.scoring import PROTOCOLS
from harness.types import Answer, AnswerForm, Box

Asks: TypeAlias = Literal["all", "single", "several", "reasoning"]

FIELDS = Fields(
    id="{id}",
    images=("image",),
    answer="",
    categories={name: name for name in ("asks", "kind", "level")},
    allowed_values={"asks": ("single", "several", "reasoning")},
    others={"boxes": "any", "masks": "any"},
)


def shapes_referring(
    data: Path,
    *,
    split: Literal["train", "val", "test"] = "val",
    asks: Asks = "all",
    protocol: str = "shapes/referring",
) -> Task:
    """One sample per question.

    Args:
        split: Split of the scenes; those of `train` never show a combination that is held out.
        asks: All questions, or those for a single thing, for several, or that need reasoning.
    """
    return table_task(
        "shapes_referring",
        data / "shapes_referring" / split,
        records.QUESTIONS_FILE,
        FIELDS,
        PROTOCOLS,
        split,
        protocol,
        read=partial(_question, asks),
        forms=(AnswerForm.MASK,),
        open=_open,
        problems=_problems,
        arguments={"asks": asks},
        fix="`harness list tasks shapes_referring` says how the data is made.",
    )


def _question(asks: Asks, row: Mapping[str, object], where: str, root: Path) -> Question | None:
    """Return the question of a record; None if `asks` does not select it.

    Raises:
        DataError: there are not as many boxes as masks, or not one each for a `single` question.
    """
    records.check_texts(row, where, "id", "question", *FIELDS.categories)
    question = FIELDS.read_record(row, where, root)
    boxes = tuple(_box(value, f"{where}: 'boxes'") for value in field(row, "boxes", list, where))
    masks = tuple(
        Rle.from_json(value, f"{where}: 'masks'") for value in field(row, "masks", list, where)
    )
    single = question.categories["asks"] == "single"
    if not masks or len(boxes) != len(masks) or (single and len(masks) > 1):
        raise DataError(
            f"{where}: 'boxes' and 'masks'",
            expected="one each" if single else "as many of both, and at least one",
            found=f"{len(boxes)} and {len(masks)}",
        )
    if len({mask.size for mask in masks}) > 1:
        raise DataError(f"{where}: 'masks'", expected="masks of one size", found="several")
    if asks not in ("all", question.categories["asks"]):
        return None
    union, instances = masks[0].union(*masks[1:]), tuple((mask,) for mask in masks)
    answer = Answer(masks=(union,), instances=instances, boxes=boxes)
    group = records.group_of(question)
    return replace(question, answer=answer, form=AnswerForm.MASK, size=masks[0].size, group=group)


def _box(value: object, where: str) -> Box:
    """Return a box from [left, top, right, bottom] in pixels; DataError if it has no area."""
    try:
        box = Box(*finite_numbers(value, 4, where))
    except ParseError as error:
        raise DataError(str(error)) from error
    if not (box.left < box.right and box.top < box.bottom):
        raise DataError(where, expected="left < right and top < bottom", found=repr(value)[:60])
    return box


def _open(question: Question) -> tuple[Media, ...]:
    """Open a question's image; DataError unless it has the size of its masks."""
    size = question.size
    assert size is not None, "`_question` sets it"
    (image,) = records.open_media(question, size=size)
    if image.size != size:
        raise DataError(
            f"{image_files(question)[0]}",
            expected=f"the {size} pixels of the masks of question {question.id!r}",
            found=str(image.size),
        )
    return (image,)


def _problems(question: Question) -> Iterator[Problem]:
    """Yield the faults of a question's image; if it has none, raise DataError for a wrong size."""
    problems = list(records.unreadable(question))
    if not problems:
        _open(question)
    yield from problems

"""Read the training tables of Seg-Zero and VisionReasoner: 840 × 840 images, texts and solutions.

    {"id": "refcocog_161801_162109", "problem": "'man in red' and 'the dog'", "solution": "[…]",
     "image": {"bytes": …}, "img_height": 427, "img_width": 640}

Images were squashed to 840 × 840 (the aspect ratio is not kept) when the tables were made. The
numbers of a solution are pixels of that image: a box has the first and the *last* column and row of
the mask. `img_height` and `img_width` are the original image's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.errors import DataError
from harness.layout import folder
from harness.media import Media
from harness.task import Protocol, Task
from harness.tasks.qa.images import image_problems, open_images
from harness.tasks.qa.questions import Question, read_records
from harness.tasks.qa.tables import text
from harness.tasks.qa.task import QuestionFormat, question_task
from harness.tasks.refer.copies import parquet_files
from harness.tasks.training.questions import distinct
from harness.types import Answer, AnswerForm, Box, Point

SIDE = 840  # pixels, of width and height
COLUMNS = {
    "id": "name of the sample",
    "problem": "what is asked for",
    "solution": "the objects",
    "image": "image of 840 × 840",
}
OPTIONAL_COLUMNS = {"img_height": "height before", "img_width": "width before"}


@dataclass(frozen=True, slots=True)
class Solution:
    """The ground truth of a row."""

    answer: Answer
    """Box in pixels of the 840 × 840 image, right and bottom *inclusive* as in the table: official
    rewards compare with it."""
    plain: Mapping[str, object]
    """The solution's whole numbers under the official keys."""


Parse = Callable[[str, str], Solution]
"""Function that reads a `solution`, given its place for errors; raises DataError."""


def table_task(
    name: str, root: Path, parse: Parse, *, split: str, protocol: Protocol, fix: str
) -> Task:
    """Return the task of a table of 840 × 840 images below `root`, a copy of its repository.

    Raises:
        DataError: the folder or its `data/train-*.parquet` is not there.
    """
    files = parquet_files(folder(root, fix=fix), split, fix=fix)
    make = partial(_question, parse)
    question_format = QuestionFormat(
        files=files,
        read=lambda: distinct(read_records(files, COLUMNS, make, optional=OPTIONAL_COLUMNS)),
        open=open_square,
        problems=partial(image_problems, open=open_square),
    )
    return question_task(
        question_format,
        name,
        protocol=protocol,
        split=split,
        forms=(AnswerForm.BOXES,),
        arguments={},
    )


def _question(parse: Parse, row: Mapping[str, object], where: str) -> Question:
    """Return the question of a row after a check; `parse` reads its solution."""
    image = row["image"]
    encoded = image.get("bytes") if isinstance(image, dict) else None
    if not isinstance(encoded, bytes) or not encoded:
        raise DataError(f"{where}: 'image'", expected="the bytes of an image", found="none")
    solution = parse(text(row, "solution", where), f"{where}: 'solution'")
    boxes = solution.answer.boxes or ()
    return Question(
        id=text(row, "id", where),
        text=text(row, "problem", where).strip(),
        media=(encoded,),
        answer=solution.answer,
        form=AnswerForm.BOXES,
        categories={"objects": {0: "none", 1: "one"}.get(len(boxes), "several")},
        extra=solution.plain,
    )


def open_square(question: Question) -> tuple[Media, ...]:
    """Open a question's image, or a stand-in if it cannot be read.

    Raises:
        DataError: the image is not 840 × 840.
    """
    (image,) = open_images(question, size=(SIDE, SIDE))
    if image.size != (SIDE, SIDE):
        raise DataError(
            f"image of question {question.id!r}",
            expected=f"{SIDE} × {SIDE} pixels",
            found="{} × {}".format(*image.size),
        )
    return (image,)


def whole_numbers(numbers: object, count: int, where: str) -> list[int]:
    """Check and return `count` coordinates in the 840 × 840 image.

    Raises:
        DataError: `numbers` is not a list of `count` whole numbers from 0 to SIDE.
    """
    if not (
        isinstance(numbers, (list, tuple))
        and len(numbers) == count
        and all(type(number) is int and 0 <= number <= SIDE for number in numbers)
    ):
        raise DataError(
            where, expected=f"{count} whole numbers from 0 to {SIDE}", found=repr(numbers)[:60]
        )
    return list(numbers)


def box(numbers: object, where: str) -> tuple[Box, list[int]]:
    """Return a table's box [x1, y1, x2, y2], as a `Box` and as a list of the same numbers.

    Right and bottom stay inclusive, one less than in other boxes of the package, because rewards
    compare responses with the table's numbers.

    Raises:
        DataError: it is not a box with right ≥ left and bottom ≥ top.
    """
    left, top, right, bottom = plain = whole_numbers(numbers, 4, where)
    if right < left or bottom < top:
        raise DataError(
            where, expected="[x1, y1, x2, y2] with x1 ≤ x2 and y1 ≤ y2", found=repr(plain)
        )
    return Box(float(left), float(top), float(right), float(bottom)), plain


def point(numbers: object, where: str) -> tuple[Point, list[int]]:
    """Return a table's point [x, y], as a `Point` and as a list of the same numbers."""
    x, y = plain = whole_numbers(numbers, 2, where)
    return Point(float(x), float(y)), plain

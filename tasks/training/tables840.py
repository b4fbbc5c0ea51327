"""The training tables of Seg-Zero and VisionReasoner: a 840 × 840 image, a text, its solution.

    {"id": "refcocog_161801_162109", "problem": "'man in red' and 'the dog'", "solution": "[…]",
     "image": {"bytes": …}, "img_height": 427, "img_width": 640}

Images were squashed to 840 × 840 (the aspect is not kept) when the tables were made, and all
numbers of a solution are pixels of that image: box sides are the first and the *last* row and
column of the mask. `img_height` and `img_width` are those of the image before.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import DataError
from harness.layout import folder
from harness.media import Media, image_or_placeholder
from harness.task import Problem, Protocol, Task
from harness.tasks.qa.tables import check_each, records, sound, text
from harness.tasks.refer.copies import parquet_files
from harness.types import Answer, AnswerForm, Box, Point, Query, Sample, Target, query_id

SIDE = 840  # pixels, of width and height
COLUMNS = {
    "id": "name of the sample",
    "problem": "what is asked for",
    "solution": "the objects",
    "image": "image of 840 × 840",
}
OPTIONAL = {"img_height": "height before", "img_width": "width before"}


@dataclass(frozen=True, slots=True)
class Solution:
    """The ground truth of a row."""

    answer: Answer
    """Box in pixels of the 840 × 840 image, right and bottom *inclusive* as in the table: official
    rewards compare with it."""
    plain: Mapping[str, object]
    """The same whole numbers under the official keys."""


Parse = Callable[[str, str], Solution]
"""Function that reads a `solution`, given its place for errors; raises DataError."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row, checked but for its image."""

    id: str
    problem: str
    solution: Solution
    encoded: bytes
    where: str

    def media(self) -> Media:
        """Open the image, or a stand-in if it cannot be read.

        Raises:
            DataError: it is not 840 × 840.
        """
        media = image_or_placeholder(self.encoded, f"of {self.where}", size=(SIDE, SIDE))
        if media.size != (SIDE, SIDE):
            raise DataError(
                f"{self.where}: 'image'",
                expected=f"{SIDE} × {SIDE} pixels",
                found="{} × {}".format(*media.size),
            )
        return media


def table_task(
    name: str, place: Path, parse: Parse, *, split: str, protocol: Protocol, fix: str
) -> Task:
    """The task of such a table below `place`, the folder of a copy from the hub.

    Raises:
        DataError: the folder or its `data/train-*.parquet` is not there.
    """
    files = parquet_files(folder(place, fix=fix), split, fix=fix)
    return Task(
        name=name,
        version=1,
        split=split,
        forms=(AnswerForm.BOXES,),
        protocol=protocol,
        samples=lambda: map(_sample, sound(read_table(files, parse))),
        annotations=tuple(files),
        check=lambda: check_each(read_table(files, parse), str(files[0].parent), _problems),
        arguments={"split": split, "protocol": protocol.name},
    )


def read_table(files: Sequence[Path], parse: Parse) -> Iterator[Row | DataError]:
    """Yield every row in order, or the error that it has.

    An id that comes again gets `#2`, `#3`, … behind it, so that ids name one sample each.

    Raises:
        DataError: a file is no Parquet file, or lacks a column.
    """
    seen: Counter[str] = Counter()
    for path in files:
        for where, plain in records(path, COLUMNS, optional=OPTIONAL):
            try:
                row = _row(plain, where, parse)
            except DataError as error:
                yield error
                continue
            seen[row.id] += 1
            again = seen[row.id]
            yield row if again == 1 else replace(row, id=f"{row.id}#{again}")


def _row(plain: Mapping[str, object], where: str, parse: Parse) -> Row:
    image = plain["image"]
    encoded = image.get("bytes") if isinstance(image, dict) else None
    if not isinstance(encoded, bytes) or not encoded:
        raise DataError(f"{where}: 'image'", expected="the bytes of an image", found="none")
    return Row(
        id=text(plain, "id", where),
        problem=text(plain, "problem", where).strip(),
        solution=parse(text(plain, "solution", where), f"{where}: 'solution'"),
        encoded=encoded,
        where=where,
    )


def _sample(row: Row) -> Sample:
    media = row.media()
    boxes = row.solution.answer.boxes or ()
    return Sample(
        id=row.id,
        query=Query(
            id=query_id(row.id), text=row.problem, media=(media,), forms=(AnswerForm.BOXES,)
        ),
        target=Target(answer=row.solution.answer, extra=row.solution.plain),
        group=media.id,
        categories={"objects": ("none", "one")[len(boxes)] if len(boxes) < 2 else "several"},
    )


def _problems(row: Row) -> Iterator[Problem]:
    try:
        fault = row.media().fault
    except DataError as error:
        fault = str(error)
    if fault:
        yield Problem(f"sample {row.id!r}", fault)


def whole_numbers(numbers: object, count: int, where: str) -> list[int]:
    """`count` whole numbers of the 840 × 840 frame.

    Raises:
        DataError: they are others, or lie outside the frame.
    """
    if not (
        isinstance(numbers, (list, tuple))
        and len(numbers) == count
        and all(type(one) is int and 0 <= one <= SIDE for one in numbers)
    ):
        raise DataError(
            where, expected=f"{count} whole numbers from 0 to {SIDE}", found=repr(numbers)[:60]
        )
    return list(numbers)


def box(numbers: object, where: str) -> tuple[Box, list[int]]:
    """A box of the table, as a box of ours and as plain numbers; they are the same four.

    Rewards compare responses with these very numbers, so right and bottom are unchanged: the last
    column and row, one less than elsewhere here.

    Raises:
        DataError: it is no box with right ≥ left and bottom ≥ top.
    """
    left, top, right, bottom = plain = whole_numbers(numbers, 4, where)
    if right < left or bottom < top:
        raise DataError(
            where, expected="[x1, y1, x2, y2] with x1 ≤ x2 and y1 ≤ y2", found=repr(plain)
        )
    return Box(float(left), float(top), float(right), float(bottom)), plain


def point(numbers: object, where: str) -> tuple[Point, list[int]]:
    """Return a point of the table, and its numbers as they are there."""
    x, y = plain = whole_numbers(numbers, 2, where)
    return Point(float(x), float(y)), plain

"""Evidence that a file's boxes, points or times are in other units or another order than ours.

Numbers alone do not say what they mean: [10, 20, 110, 220] is one box as corners and another as a
corner with its size. What a file shows as a whole does: boxes that leave their images as they are
read, and all fit them in another order; points that all lie in the first pixel, as fractions do.
Such a file is refused. What could be a model's mistake is counted in a note.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from harness.errors import DataError, HarnessError
from harness.foreign_lines import rewrite
from harness.formats.misread import CENTRE, READ, TO_CORNERS, around, box_command, refuse_misread
from harness.interchange.answers import row_to_answer
from harness.interchange.rows import Row
from harness.layout.places import (
    FAR,
    FIRST,
    SLACK,
    SMALLEST,
    Numbers,
    Size,
    beyond,
    is_far,
    is_fraction,
)
from harness.types import AnswerForm, Prediction, Query, Sample

Orders: TypeAlias = Mapping[str, Callable[[Numbers], Numbers]]
"""Functions that turn numbers in another order into ours, by the name of that order."""
CORNERS: Orders = {
    **READ,
    "[top, left, bottom, right]": lambda b: (b[1], b[0], b[3], b[2]),
}
"""Orders in which others write what is read as [left, top, right, bottom]."""
SIZES: Orders = {
    "[left, top, right, bottom]": lambda b: (b[0], b[1], b[2] - b[0], b[3] - b[1]),
    CENTRE: lambda b: around(b[0], b[1], b[2] - b[0], b[3] - b[1]),
    "[top, left, height, width]": lambda b: (b[1], b[0], b[3], b[2]),
}
"""The same of boxes that were read as [left, top, width, height], and are now corners."""
PLACES: Orders = {"[y, x]": lambda p: (p[1], p[0])}
Y_FIRST = ("[y, x]", "[top, left, bottom, right]", "[top, left, height, width]")
"""Orders that are those of coordinates with y first."""


ROUNDED = 1e-3
"""Part by which a probability of 16 bits may lie beyond 0 or 1; pixels that are none."""
SURE = 0.5
"""Score up to which a detector does not claim a box: a count of boxes takes them all."""
MOST_FRAMES = 120
"""Frames a second of a video at most: larger numbers are milliseconds."""
SHARES = {100: "percentages", 1000: "thousandths"}
"""Whole sides of which others write boxes and points as parts, and what these are called."""
CHANCE, DOUBT = 0.1, 0.5
"""Probability up to which it is not chance that all points of a file lie so near the corner, and up
to which a note says so."""
DECIMAL, GROUPED = (
    re.compile(r"-?(\d+,\d{1,2}|0,\d+|\d+,\d{4,})"),
    re.compile(r"-?[1-9]\d{0,2},\d{3}"),
)
"""A number with a decimal comma, and one that may be thousands as well."""
FEW = 5
"""Answers of which it is not chance that all are alike."""
MANY = 5
"""Questions of which it is not chance (0.1 %) that all answers lie in a quarter of their images."""


def check_units(
    rows: Mapping[str, Row],
    samples: Iterable[Sample],
    thing: str,
    *,
    sizes: bool = False,
    stated: bool = False,
    lines: bool = True,
) -> tuple[str, ...]:
    """Return notes on boxes, points and times that do not fit their images and videos.

    Args:
        rows: The file's rows by sample.
        samples: The samples that are scored.
        thing: What the file is, for messages.
        sizes: True if its boxes were read as [left, top, width, height].
        stated: True if its author says what its coordinates mean: that they lie near a corner is
            no evidence then.
        lines: True if the file is of our own JSON lines, which a command can rewrite.

    Raises:
        DataError: as a whole they are fractions, or in another order, or of other sizes; or they
            may be parts of a hundred or a thousand, and nobody has stated it.
    """
    boxes: list[tuple[Numbers, Size]] = []
    points: list[tuple[Numbers, Size]] = []
    times: list[tuple[Numbers, float]] = []
    placed: list[tuple[Numbers, Size]] = []
    """All numbers of each question about places, which an object's may share over its frames; of a
    count the unit does not matter."""
    ordered: list[tuple[Row, Query]] = []
    odd = unsure = 0
    commas: dict[str, str] = {}
    for sample in samples:
        query = sample.query
        if query.form is AnswerForm.NUMBER and (text := _bare_number(rows.get(sample.id))):
            commas[text] = rows[sample.id].file if lines else ""
        if not _is_looked_at(query) or (row := rows.get(sample.id)) is None:
            continue
        odd += _odd_scores(row, query)
        if query.form is AnswerForm.COUNT:
            unsure += sum(score <= SURE for score in row.box_scores or ())
        if row.kind not in ("boxes", "points", "answer"):
            continue
        is_ordered = row.kind == "boxes" or query.form is AnswerForm.INTERVAL
        if is_ordered and query.media and query.media[0].fault is None:
            ordered.append((row, query))
        try:
            answer = row_to_answer(row, query)
        except HarnessError:  # which is raised where it is scored
            continue
        found_boxes = [*(answer.boxes or ()), *(box for box in answer.box_track or () if box)]
        if query.media and query.media[0].fault is None:
            boxes += [(box, query.size) for box in found_boxes]
            points += [(point, query.size) for point in answer.points or ()]
            if query.form is not AnswerForm.COUNT:
                numbers = tuple(chain(*found_boxes, *(answer.points or ())))
                placed += [(numbers, query.size)] if numbers else []
            if answer.interval is not None:
                times.append((answer.interval, max(query.media[0].times(), default=0.0)))
    _refuse_commas(commas, thing)
    if lines and not sizes:
        refuse_misread(ordered)
    file = ordered[0][0].file if ordered and lines and not sizes else ""
    notes = (
        *_shapes(boxes, thing, "boxes", SIZES if sizes else CORNERS, len(placed), file),
        *_shapes(points, thing, "points", PLACES, len(placed)),
    )
    return (
        *notes,
        *(() if stated else _parts(placed, thing)),
        *_times(times, f"{thing}: intervals"),
        *([f"{odd} scores outside 0 to 1, of which only the order counts"] if odd else []),
        *(
            [f"{unsure} boxes of counts have a score of {SURE} or less: each counts"]
            if unsure
            else ()
        ),
    )


@dataclass(slots=True)
class MaskCount:
    """Numbers of predicted masks by how much of their image they cover."""

    answers: int = 0
    """Number of answers with masks."""
    empty: int = 0
    """Number of those whose masks have no pixel."""
    most: int = 0
    """Number of those whose masks have more than half of the pixels."""

    def add(self, predictions: Iterable[Prediction]) -> None:
        """Count the answers with masks."""
        for prediction in predictions:
            masks = None if prediction.answer is None else prediction.answer.masks
            if masks:
                area = sum(mask.area for mask in masks)
                self.answers += 1
                self.empty += not area
                self.most += 2 * area > sum(mask.width * mask.height for mask in masks)

    def notes(self) -> tuple[str, ...]:
        """Return a note if all masks are empty, or so large that they may be inverted."""
        if self.answers == 0:
            return ()
        if self.answers == self.empty:
            return (f"every mask is empty ({self.empty} answers)",)
        if self.answers == self.most:
            return (
                f"every mask has more than half of the pixels ({self.most} answers): inverted?",
            )
        return ()


def _bare_number(row: Row | None) -> str | None:
    """Return the text of a response that is a number with a comma and nothing else."""
    text = row.value if row is not None and row.kind == "response" else None
    text = text.strip() if isinstance(text, str) else ""
    return text if DECIMAL.fullmatch(text) or GROUPED.fullmatch(text) else None


def _refuse_commas(files: Mapping[str, str], thing: str) -> None:
    """Refuse responses of which some have a decimal comma, and others may have thousands.

    `files` holds by text the name of the file of JSON lines, or an empty text.
    """
    decimal = next(filter(DECIMAL.fullmatch, files), None)
    grouped = next(filter(GROUPED.fullmatch, files), None)
    if decimal and grouped:
        file = files[decimal]
        points = r'if test("^\\s*-?\\d+,\\d+\\s*$") then sub(","; ".") else . end'
        raise DataError(
            f"{thing}: numbers",
            expected="a point before decimals",
            found=f"{decimal!r} with a comma, and {grouped!r}, which may be thousands",
            fix="If commas are decimal, write points"
            + (f": {rewrite('response', points, file)}." if file else "."),
        )


def is_probability(score: float) -> bool:
    """Return True for a number from 0 to 1, rounded."""
    return -ROUNDED <= score <= 1 + ROUNDED


def _is_looked_at(query: Query) -> bool:
    masks = {AnswerForm.MASK, AnswerForm.MASK_TRACK}
    return query.instances or not masks & {query.form}


def _odd_scores(row: Row, query: Query) -> int:
    """Return how many scores are not probabilities; refuse them where instances above 0.5 count."""
    odd = [score for score in row.box_scores or () if not is_probability(score)]
    if odd and query.instances:
        raise DataError(
            f"{row.where} (id {row.id!r}): scores",
            expected="from 0 to 1, as instances above 0.5 count",
            found=f"{odd[0]:g}",
            fix="Divide percentages by 100; logits need a sigmoid first.",
        )
    return len(odd)


def _shapes(
    places: Sequence[tuple[Numbers, Size]],
    thing: str,
    kind: str,
    orders: Orders,
    questions: int,
    file: str = "",
) -> Iterator[str]:
    """Yield a note on boxes or points that leave their image; refuse what shows another unit.

    `questions` is the number of questions that they answer, and `file` the name of a file of JSON
    lines, for the command to type.
    """
    what, expected = f"{thing}: {kind}", "pixels of the original image"
    if not any(max(numbers) > ROUNDED for numbers, _ in places):  # none, or zeros in their place
        return
    if all(is_fraction(numbers) and min(size) >= SMALLEST for numbers, size in places):
        raise DataError(
            what,
            expected=expected,
            found=f"{len(places)} in the first two pixels, as fractions of the image are",
            fix=f"Multiply them by the image's width and height{_stated(1)}.",
        )
    leaving = sum(beyond(*place) > SLACK for place in places)
    far = sum(is_far(*place) for place in places)
    counted = f"{leaving} of {len(places)} that reach beyond their image"
    part = next((side for side in SHARES if _are_within(places, side)), None)
    parts = ""
    if part is not None:
        own = f"{SHARES[part]} of the image's own sides, not of a square around it"
        parts = f"If they are {own}, make pixels of them{_stated(part)}. "
    for name, read in orders.items() if far else ():
        if all(_fits(read(numbers), size) for numbers, size in places):
            order = " (`--coordinates pixels_yx`)" if name in Y_FIRST else ""
            if file and name in TO_CORNERS:
                order = f" ({box_command(name, file)})"
            raise DataError(
                what,
                expected="to lie in their images",
                found=f"{counted}, and all would fit as {name}",
                fix=f"{parts}Write them in the documented order{order}; or clip them, if they "
                "are in it.",
            )
    if 2 * far > len(places):
        raise DataError(
            what,
            expected=expected,
            found=f"{counted}, {far} by more than a tenth of it",
            fix=f"{parts}Divide those of a resized image by the factor; or clip them, if they are "
            "in pixels.",
        )
    if questions >= MANY and all(_is_in_corner(*place) for place in places):
        yield (
            f"{len(places)} {kind}, all of which lie in the upper left quarter of their images, as "
            "percentages and those of a smaller image do"
        )
    if leaving:
        yield f"{leaving} of {len(places)} {kind} reach beyond their image"


def _parts(places: Sequence[tuple[Numbers, Size]], thing: str) -> Iterator[str]:
    """Yield a note if places may as well be percentages or thousandths of their images.

    All lie within so many pixels of the corner, where places in all of the image would by chance
    with a probability of at most `DOUBT`; they are refused up to `CHANCE`. Each question's are
    counted as one place. Placeholders in the first pixels tell nothing.
    """
    places = [place for place in places if max(place[0]) > FIRST]
    for side, name in SHARES.items():
        chance = math.prod(min(1, side / size[0]) * min(1, side / size[1]) for _, size in places)
        if _are_within(places, side) and chance <= CHANCE:
            raise DataError(
                f"{thing}: coordinates",
                expected="pixels of the original image",
                found=f"{len(places)} from 0 to {side}, as {name} of the image are",
                fix=f"Say what they are: --coordinates pixels, normalized_{side}, or "
                f"normalized_{side}_yx where y comes first.",
            )
        if places and _are_within(places, side) and chance <= DOUBT:
            yield (
                f"{len(places)} answers with coordinates from 0 to {side}, read as pixels: "
                f"--coordinates normalized_{side} if they are {name}"
            )
            return


def _are_within(places: Sequence[tuple[Numbers, Size]], side: int) -> bool:
    return all(0 <= number <= side for numbers, _ in places for number in numbers)


def _stated(side: int) -> str:
    """Return how to state parts of a side, in words."""
    return (
        f", or state it: `--coordinates normalized_{side}`, or `normalized_{side}_yx` where y "
        "comes first, as Gemini has it"
    )


def _is_in_corner(numbers: Numbers, size: Size) -> bool:
    return all(2 * number <= side for number, side in zip(numbers, size * 2, strict=False))


def _fits(numbers: Numbers, size: Size) -> bool:
    is_box = len(numbers) == 2 or (numbers[2] > numbers[0] and numbers[3] > numbers[1])
    return is_box and beyond(numbers, size) <= SLACK


def _times(intervals: Sequence[tuple[Numbers, float]], thing: str) -> Iterator[str]:
    """Yield a note on intervals after the video's end; refuse what shows another unit."""
    expected = "seconds from the video's beginning"
    fractions = [is_fraction(interval) and end >= SMALLEST for interval, end in intervals]
    if 0 < len(intervals) < FEW and all(fractions):
        yield f"{len(intervals)} intervals, all of which lie in the first two seconds: fractions?"
    if len(intervals) >= FEW and all(fractions):
        raise DataError(
            thing,
            expected=expected,
            found=f"{len(intervals)} in the first two seconds, as fractions of the video are",
            fix="Multiply them by the video's length.",
        )
    late = sum(interval[0] > end + SLACK for interval, end in intervals)
    far = sum(interval[1] > (1 + FAR) * end + SLACK for interval, end in intervals)
    percent = all(0 <= number <= 100 for interval, _ in intervals for number in interval)
    if 2 * late > len(intervals) or (percent and 2 * far > len(intervals)):
        raise DataError(
            thing,
            expected=expected,
            found=f"{late} of {len(intervals)} that begin after the video's end, "
            f"{far} that end then",
            fix=_time_units(intervals),
        )
    chance = math.prod(min(1.0, 100 / end) for _, end in intervals if end)
    if intervals and percent and chance <= CHANCE:
        yield f"{len(intervals)} intervals, all of which lie in the first 100 seconds: percentages?"
    if late:
        yield f"{late} of {len(intervals)} intervals begin after their video's end"


def _time_units(intervals: Sequence[tuple[Numbers, float]]) -> str:
    """Return what makes seconds of each unit that the numbers may have."""
    largest = max((interval[1] / end for interval, end in intervals if end), default=0.0)
    percent = all(0 <= number <= 100 for interval, _ in intervals for number in interval)
    units = [
        "numbers of frames, divide them by the frames a second" if largest <= MOST_FRAMES else "",
        "percentages, multiply them by a hundredth of the video's length" if percent else "",
        "milliseconds, divide them by 1,000" if largest > MOST_FRAMES else "",
    ]
    return f"If they are {'; if '.join(filter(None, units))}; if seconds, clip them."

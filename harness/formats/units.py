"""Recognise files whose boxes, points or times are in another unit or order than documented.

A few numbers do not show their meaning: [10, 20, 110, 220] is one box as corners and another as a
corner and a size. The whole file does: boxes that exceed their images as read, and all fit in
another order; points that all lie in the first pixel, as fractions do. Such a file is refused; what
could be a model's mistake is counted in a note. Readers of predictions call `check_units`.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from harness.errors import DataError, HarnessError
from harness.foreign_lines import rewrite
from harness.formats.misread import CENTRE, READ, TO_CORNERS, around, box_command, refuse_misread
from harness.interchange.answers import row_to_answer
from harness.interchange.rows import Row
from harness.layout.places import (
    FAR_FRACTION,
    MAX_FRACTION,
    MIN_SIDE_FOR_FRACTIONS,
    SLACK,
    Numbers,
    Size,
    beyond,
    is_far,
    is_fraction,
    rounding_of,
    video_length,
)
from harness.types import Answer, AnswerForm, Prediction, Query, Sample

Orders: TypeAlias = Mapping[str, Callable[[Numbers], Numbers]]
"""Functions that convert numbers in another order to the documented one, by that order's name."""
CORNERS: Orders = {
    **READ,
    "[top, left, bottom, right]": lambda b: (b[1], b[0], b[3], b[2]),
}
"""Other orders of boxes that are read as [left, top, right, bottom]."""
SIZES: Orders = {
    "[left, top, right, bottom]": lambda b: (b[0], b[1], b[2] - b[0], b[3] - b[1]),
    CENTRE: lambda b: around(b[0], b[1], b[2] - b[0], b[3] - b[1]),
    "[top, left, height, width]": lambda b: (b[1], b[0], b[3], b[2]),
}
"""Other orders of boxes that were read as [left, top, width, height] and converted to corners."""
PLACES: Orders = {"[y, x]": lambda p: (p[1], p[0])}
Y_FIRST = ("[y, x]", "[top, left, bottom, right]", "[top, left, height, width]")
"""Names of the orders with y first."""


ROUNDED = 1e-3
"""Excess over 0 or 1 of a probability, and pixels from 0 of a placeholder, that are rounding."""
SURE = 0.5
"""Score up to which a detector is not sure of a box; a count of boxes would count all of them."""
MOST_FRAMES = 120
"""Most frames per second of a video: larger numbers per second of it are milliseconds."""
SHARES = {100: "percentages", 1000: "thousandths"}
"""Numbers that stand for a whole side in other conventions, and the name of their unit."""
CHANCE, DOUBT = 0.1, 0.5
"""Probability, by chance, that all points of a file lie so near the corner: a file is refused up to
the first, and noted up to the second."""
DECIMAL, GROUPED = (
    re.compile(r"-?(\d+,\d{1,2}|0,\d+|\d+,\d{4,})"),
    re.compile(r"-?[1-9]\d{0,2},\d{3}"),
)
"""A number with a decimal comma, `0,5`, and one that may have a thousands separator, `1,500`."""
FEW = 5
"""Least number of answers that do not all have the same fault by chance."""
MANY = 5
"""Least number of questions whose answers all lie in a quarter of their images by 0.1 % chance."""


def check_units(
    rows: Mapping[str, Row],
    samples: Iterable[Sample],
    thing: str,
    *,
    sizes: bool = False,
    stated: bool = False,
    lines: bool = True,
) -> tuple[str, ...]:
    """Return notes on boxes, points and times that exceed their images and videos.

    Args:
        rows: The file's rows by sample.
        samples: The samples that are scored.
        thing: The kind of file and its path, for messages.
        sizes: True if its boxes were read as [left, top, width, height].
        stated: True if the user states the meaning of its coordinates: that all lie near a corner
            is then not a fault.
        lines: True if the file has our own JSON lines, which a command can rewrite.

    Raises:
        DataError: as a whole they are fractions, in another order, or of images of other sizes; or
            they may be percentages or thousandths, and `stated` is False.
    """
    coordinates = _Coordinates()
    ordered: list[tuple[Row, Query]] = []
    n_odd = n_unsure = 0
    commas: dict[str, str] = {}
    for sample in samples:
        query = sample.query
        if query.form is AnswerForm.NUMBER and (text := _bare_number(rows.get(sample.id))):
            commas[text] = rows[sample.id].file if lines else ""
        if not _is_looked_at(query) or (row := rows.get(sample.id)) is None:
            continue
        n_odd += _odd_scores(row, query)
        if query.form is AnswerForm.COUNT:
            n_unsure += sum(score <= SURE for score in row.box_scores or ())
        if row.kind not in ("boxes", "points", "answer"):
            continue
        is_readable = bool(query.media) and query.media[0].fault is None
        if is_readable and (row.kind == "boxes" or query.form is AnswerForm.INTERVAL):
            ordered.append((row, query))
        try:
            answer = row_to_answer(row, query)
        except HarnessError:  # which is raised where it is scored
            continue
        if is_readable:
            coordinates.add(query, answer)
    _refuse_commas(commas, thing)
    if lines and not sizes:
        refuse_misread(ordered)
    fixes = dict.fromkeys(Y_FIRST, "`--coordinates pixels_yx`")
    if ordered and lines and not sizes:
        fixes |= {name: box_command(name, ordered[0][0].file) for name in TO_CORNERS}
    orders = SIZES if sizes else CORNERS
    notes = (
        *shapes(coordinates.boxes, thing, "boxes", orders, len(coordinates.by_question), fixes),
        *shapes(coordinates.points, thing, "points", PLACES, len(coordinates.by_question), fixes),
    )
    return (
        *notes,
        *(() if stated else _parts(coordinates.by_question, thing)),
        *_times(coordinates.times, f"{thing}: intervals"),
        *([f"{n_odd} scores outside 0 to 1, of which only the order is used"] if n_odd else []),
        *(
            [f"{n_unsure} boxes of counts have a score of {SURE} or less: each counts"]
            if n_unsure
            else ()
        ),
    )


@dataclass(slots=True)
class _Coordinates:
    """The numbers of all answers, each with its image's (width, height) or video's length in s."""

    boxes: list[tuple[Numbers, Size]] = field(default_factory=list)
    points: list[tuple[Numbers, Size]] = field(default_factory=list)
    times: list[tuple[Numbers, float]] = field(default_factory=list)
    by_question: list[tuple[Numbers, Size]] = field(default_factory=list)
    """All numbers of each question about places, which an object's may share over its frames; of a
    count the unit does not matter."""

    def add(self, query: Query, answer: Answer) -> None:
        """Add the answer of a question whose image or video can be read."""
        boxes = [*(answer.boxes or ()), *(box for box in answer.box_track or () if box)]
        self.boxes += [(box, query.size) for box in boxes]
        self.points += [(point, query.size) for point in answer.points or ()]
        numbers = tuple(chain(*boxes, *(answer.points or ())))
        if numbers and query.form is not AnswerForm.COUNT:
            self.by_question.append((numbers, query.size))
        if answer.interval is not None:
            self.times.append((answer.interval, video_length(query.media[0].times())))


@dataclass(slots=True)
class MaskCount:
    """Counts of answers whose predicted masks are empty, or cover most of their image."""

    answers: int = 0
    """Number of answers with masks."""
    empty: int = 0
    """Number of answers whose masks have no pixel."""
    most: int = 0
    """Number of answers whose masks have more than half of the pixels."""

    def add(self, predictions: Iterable[Prediction]) -> None:
        """Count the answers with masks."""
        for prediction in predictions:
            masks = None if prediction.answer is None else prediction.answer.masks
            if masks:
                area = sum(mask.area for mask in masks)
                self.answers += 1
                if not area:
                    self.empty += 1
                if 2 * area > sum(mask.width * mask.height for mask in masks):
                    self.most += 1

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
    """Return the response of a row if it is only a number with a comma; otherwise None."""
    text = row.value if row is not None and row.kind == "response" else None
    text = text.strip() if isinstance(text, str) else ""
    return text if DECIMAL.fullmatch(text) or GROUPED.fullmatch(text) else None


def _refuse_commas(files: Mapping[str, str], thing: str) -> None:
    """Raise DataError if some responses have a decimal comma and others may have a thousands one.

    `files` maps each response to the name of its file of JSON lines, or to "".
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
    """Return True for a number from 0 to 1, up to rounding."""
    return -ROUNDED <= score <= 1 + ROUNDED


def _is_looked_at(query: Query) -> bool:
    masks = {AnswerForm.MASK, AnswerForm.MASK_TRACK}
    return query.instances or not masks & {query.form}


def _odd_scores(row: Row, query: Query) -> int:
    """Return the number of scores that are not probabilities; refuse them where instances count."""
    outside_range = [score for score in row.box_scores or () if not is_probability(score)]
    if outside_range and query.instances:
        raise DataError(
            f"{row.where} (id {row.id!r}): scores",
            expected="from 0 to 1, as instances above 0.5 count",
            found=f"{outside_range[0]:g}",
            fix="Divide percentages by 100; logits need a sigmoid first.",
        )
    return len(outside_range)


def shapes(
    places: Sequence[tuple[Numbers, Size]],
    thing: str,
    shapes_name: str,
    orders: Orders,
    questions: int,
    fixes: Mapping[str, str],
) -> Iterator[str]:
    """Yield a note on boxes, points or polygons that exceed their image.

    Args:
        places: Their numbers, each with (width, height) of the image in pixels.
        thing: The kind of file and its path, for messages.
        shapes_name: Their name in messages, as "boxes".
        orders: Functions that convert numbers in another order to the documented one.
        questions: Number of questions that they answer.
        fixes: Commands that convert numbers in another order, by its name.

    Raises:
        DataError: as a whole they are in another unit or order.
    """
    what, expected = f"{thing}: {shapes_name}", "pixels of the original image"
    if not any(max(numbers) > ROUNDED for numbers, _ in places):  # none, or zeros in their place
        return
    if all(
        is_fraction(numbers) and min(size) >= MIN_SIDE_FOR_FRACTIONS for numbers, size in places
    ):
        raise DataError(
            what,
            expected=expected,
            found=f"{len(places)} in the first two pixels, as fractions of the image are",
            fix=f"Multiply them by the image's width and height{_stated(1)}.",
        )
    n_leaving = sum(beyond(numbers, size) > SLACK for numbers, size in places)
    n_far = sum(is_far(numbers, size) for numbers, size in places)
    counted = f"{n_leaving} of {len(places)} that reach beyond their image"
    part = next((side for side in SHARES if _are_within(places, side)), None)
    parts = ""
    if part is not None:
        own_unit = f"{SHARES[part]} of the image's own sides, not of a square around it"
        parts = f"If they are {own_unit}, make pixels of them{_stated(part)}. "
    for name, convert in orders.items() if n_far else ():
        if all(_fits(convert(numbers), size) for numbers, size in places):
            order = f" ({fixes[name]})" if name in fixes else ""
            raise DataError(
                what,
                expected="to lie in their images",
                found=f"{counted}, and all would fit as {name}",
                fix=f"{parts}Write them in the documented order{order}; or clip them, if they "
                "are in it.",
            )
    if 2 * n_far > len(places):
        raise DataError(
            what,
            expected=expected,
            found=f"{counted}, {n_far} by more than a tenth of it",
            fix=f"{parts}Divide those of a resized image by the factor; or clip them, if they are "
            "in pixels.",
        )
    if questions >= MANY and all(_is_in_corner(numbers, size) for numbers, size in places):
        yield (
            f"{len(places)} {shapes_name}, all of which lie in the upper left quarter of their "
            "images, as percentages and those of a smaller image do"
        )
    if n_leaving:
        yield f"{n_leaving} of {len(places)} {shapes_name} reach beyond their image"


def _parts(places: Sequence[tuple[Numbers, Size]], thing: str) -> Iterator[str]:
    """Yield a note if boxes or points may also be percentages or thousandths of their images.

    They may if all lie within the first 100 (1000) pixels, and the probability of that for places
    anywhere in the images is at most `DOUBT`; DataError is raised if it is at most `CHANCE`. A
    question counts as one place; placeholders in the first pixels do not count.
    """
    places = [(numbers, size) for numbers, size in places if max(numbers) > MAX_FRACTION]
    for side, name in SHARES.items():
        chance = math.prod(min(1, side / size[0]) * min(1, side / size[1]) for _, size in places)
        if _are_within(places, side) and chance <= CHANCE:
            raise DataError(
                f"{thing}: coordinates",
                expected="pixels of the original image",
                found=f"{len(places)} from 0 to {side}, as {name} of the image are",
                fix=f"State which: --coordinates pixels, normalized_{side}, or "
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
    """Return the advice to state the unit of parts of a side, in words."""
    return (
        f", or state it: `--coordinates normalized_{side}`, or `normalized_{side}_yx` where y "
        "comes first, as Gemini has it"
    )


def _is_in_corner(numbers: Numbers, size: Size) -> bool:
    return all(2 * number <= size[axis % 2] for axis, number in enumerate(numbers))


def _fits(numbers: Numbers, size: Size) -> bool:
    has_area = len(numbers) != 4 or (numbers[2] > numbers[0] and numbers[3] > numbers[1])
    return has_area and beyond(numbers, size) <= SLACK


def _times(intervals: Sequence[tuple[Numbers, float]], thing: str) -> Iterator[str]:
    """Yield a note on intervals after the video's end; raise DataError if all show another unit."""
    expected = "seconds from the video's beginning"
    fractions = [
        is_fraction(interval) and end >= MIN_SIDE_FOR_FRACTIONS for interval, end in intervals
    ]
    if 0 < len(intervals) < FEW and all(fractions):
        yield f"{len(intervals)} intervals, all of which lie in the first two seconds: fractions?"
    if len(intervals) >= FEW and all(fractions):
        raise DataError(
            thing,
            expected=expected,
            found=f"{len(intervals)} in the first two seconds, as fractions of the video are",
            fix="Multiply them by the video's length.",
        )
    late = sum(interval[0] > end + rounding_of(end) for interval, end in intervals)
    n_far = sum(
        interval[1] > (1 + FAR_FRACTION) * end + rounding_of(end) for interval, end in intervals
    )
    percent = all(0 <= number <= 100 for interval, _ in intervals for number in interval)
    if 2 * late > len(intervals) or (percent and 2 * n_far > len(intervals)):
        raise DataError(
            thing,
            expected=expected,
            found=f"{late} of {len(intervals)} that begin after the video's end, "
            f"{n_far} that end then",
            fix=_time_units(intervals),
        )
    for scale, name in ((1, "fractions"), (100, "percentages")):
        chance = math.prod(min(1.0, scale / end) ** 2 for _, end in intervals if end)
        are_within = all(interval[1] <= scale for interval, _ in intervals)
        if are_within and chance <= CHANCE and not any(fractions):
            first = "the first second" if scale == 1 else f"the first {scale} seconds"
            yield f"{len(intervals)} intervals, all of which lie in {first}: {name}?"
            break
    if late:
        yield f"{late} of {len(intervals)} intervals begin after their video's end"


def _time_units(intervals: Sequence[tuple[Numbers, float]]) -> str:
    """Return how to convert each unit that the numbers may have to seconds, in words."""
    largest = max((interval[1] / end for interval, end in intervals if end), default=0.0)
    percent = all(0 <= number <= 100 for interval, _ in intervals for number in interval)
    units = [
        "numbers of frames, divide them by the frames a second" if largest <= MOST_FRAMES else "",
        "percentages, multiply them by a hundredth of the video's length" if percent else "",
        "milliseconds, divide them by 1,000" if largest > MOST_FRAMES else "",
    ]
    return f"If they are {'; if '.join(filter(None, units))}; if seconds, clip them."

"""From rows of a predictions file (`harness score --predictions`) to answers.

Each row is checked against its question; a mistake raises DataError. If the row is in a known other
form, such as a box as {"x": …, "y": …}, the error's `fix` is a command that converts the file by
jq: much of this module recognises such forms and writes the jq `program`.
"""

import json
import re
from collections.abc import Sequence
from typing import Protocol

from harness import foreign_boxes
from harness.coordinates import in_pixels
from harness.errors import DataError, MaskError, ParseError, UsageError
from harness.foreign_lines import (
    command,
    failed_where,
    number_of_option,
    of_boxes,
    polygons,
    rewrite,
)
from harness.interchange.rows import Row
from harness.masks import Rle
from harness.responses import finite_numbers
from harness.types import (
    Answer,
    AnswerForm,
    Box,
    Failure,
    FailureKind,
    Interval,
    Point,
    Prediction,
    Query,
)

KINDS_OF_FORM = {
    AnswerForm.MASK: ("masks", "instances", "no_target"),
    AnswerForm.MASK_TRACK: ("masks", "instances", "no_target"),
    AnswerForm.BOXES: ("boxes", "no_target"),
    AnswerForm.BOX_TRACK: ("boxes", "no_target"),
    AnswerForm.BOX_3D: ("answer",),
    AnswerForm.POINTS: ("points", "no_target"),
    AnswerForm.COUNT: ("answer", "boxes", "points", "no_target"),
    AnswerForm.CHOICE: ("answer",),
    AnswerForm.NUMBER: ("answer",),
    AnswerForm.INTERVAL: ("answer", "no_target"),
    AnswerForm.TEXT: ("answer",),
}
"""Kinds of rows (`rows.KINDS`) that can answer a question, by the question's form of answer."""
MAX_BOXES = 100_000  # boxes, points or instances of one row
MAX_COUNT = 10**9
LETTER_PATTERN = re.compile(r"\s*\(?\s*([A-Za-z])\s*[).:]?\s*")
"""An option's letter as an "answer": `B`, `b`, `(B)`, `B.`; not `B or C`."""

MISSING_NUMBERS = frozenset({"", "na", "n/a", "nan", "none", "null"})
"""Lower-case texts that tables have in place of a missing number."""

CLOCK_TIME = re.compile(r"\d+(?::\d\d){0,2}(?:\.\d+)?")  # `1:02:03.5`, `02:03` or `3.5`
CLOCK_TO_SECONDS = 'split(":") | map(tonumber) | reduce .[] as $part (0; . * 60 + $part)'
"""jq program that converts a text like `CLOCK_TIME` to seconds."""


def row_to_answer(row: Row, query: Query) -> Answer:
    """Return the answer of a row that is not a response, in pixels of the original image.

    Raises:
        DataError: the row does not fit the question, such as by its kind, its type, or the number
            or size of its frames. That is the file's mistake, never a low score.
    """
    if row.kind not in KINDS_OF_FORM[query.form]:
        raise DataError(
            f"{row.where} (id {row.id!r})",
            found=f'"{row.kind}"',
            expected=f"{' or '.join(KINDS_OF_FORM[query.form])} for a {query.form} question",
            fix='Give --model to parse a "response".',
        )
    try:
        return _READERS[row.kind](row, query)
    except (ParseError, MaskError) as error:
        raise DataError(f"{row.where} (id {row.id!r}): {error}") from error


def _masks(row: Row, query: Query) -> Answer:
    if _is_polygon(row.value) or (isinstance(row.value, list) and any(map(_is_polygon, row.value))):
        fix = f"--format coco reads polygons: {polygons(row.file)} makes its records."
        raise ParseError('"masks"', expected="run-lengths", found="corners of polygons", fix=fix)
    return Answer(masks=_track(row, row.value, query, '"masks"'))


def _is_polygon(value: object) -> bool:
    """Return True for [x, y, …] or [[x, y], …] of three corners or more."""
    if isinstance(value, list) and value and all(isinstance(corner, list) for corner in value):
        value = [number for corner in value if len(corner) == 2 for number in corner]
    return (
        isinstance(value, list)
        and len(value) >= 6
        and all(type(number) in (int, float) for number in value)
    )


def _instances(row: Row, query: Query) -> Answer:
    """Parse one list of masks for each object; the answer's mask of a frame is their union."""
    values = _value_list(row)
    tracks = [_track(row, item, query, f"instance {index}") for index, item in enumerate(values)]
    width, height = query.size
    no_objects = [(Rle.empty(height, width),) * len(query.media[0])]
    masks_by_frame = zip(*(tracks or no_objects), strict=True)
    return Answer(
        masks=tuple(Rle.union(*masks) for masks in masks_by_frame),
        instances=tuple(tracks),
        box_scores=row.box_scores,
        no_target=not tracks,
    )


def _track(row: Row, value: object, query: Query, name: str) -> tuple[Rle, ...]:
    """Parse a list of one mask per frame, null for an empty one; `name` is for messages."""
    width, height = query.size
    masks = []
    for index, item in enumerate(_one_a_frame(value, query, name, row, "masks")):
        what = f"mask of frame {index}"
        mask = (
            Rle.empty(height, width)
            if item is None
            else Rle.from_json(item, what, by_rows=row.written.by_rows)
        )
        if mask.size != (width, height):
            is_transposed = mask.size == (height, width)
            raise ParseError(
                what,
                expected=f'"size": [{height}, {width}], as the image is',
                found=f"[{mask.height}, {mask.width}]",
                fix='"size" is [height, width], and runs go down the columns.'
                if is_transposed
                else "Masks are not resized: write them in the image's size.",
            )
        masks.append(mask)
    return tuple(masks)


def _boxes(row: Row, query: Query) -> Answer:
    if query.form is AnswerForm.BOX_TRACK:
        return _box_track(row, query)
    boxes = tuple(_box(box, row, query) for box in _value_list(row))
    return Answer(boxes=boxes, box_scores=row.box_scores)


def _box_track(row: Row, query: Query) -> Answer:
    """Parse one box for each frame, null where the object is not visible."""
    boxes_by_frame = _one_a_frame(row.value, query, '"boxes"', row, "boxes")
    return Answer(
        box_track=tuple(None if item is None else _box(item, row, query) for item in boxes_by_frame)
    )


def _box(plain: object, row: Row, query: Query) -> Box:
    """Parse [left, top, right, bottom] in the file's coordinates; return it in pixels."""
    numbers = _numbers(plain, 4, "box", row)
    box = Box(*in_pixels(numbers, row.written.coordinates, query.size))
    if box.right <= box.left or box.bottom <= box.top:
        raise ParseError("box", expected="left < right and top < bottom", found=str(tuple(box)))
    return box


def _points(row: Row, query: Query) -> Answer:
    numbers = [_numbers(item, 2, "point", row) for item in _value_list(row)]
    if (-1, -1) in numbers:
        raise ParseError(
            "point",
            expected="a point in the image",
            found="[-1, -1], which stands for none in some files",
            fix='Leave it out: "points": [] says that there is none.',
        )
    coordinates = row.written.coordinates
    return Answer(points=tuple(Point(*in_pixels(xy, coordinates, query.size)) for xy in numbers))


PLACE_KEYS = (
    ("x", "y", "width", "height"),
    ("x1", "y1", "x2", "y2"),
    ("xmin", "ymin", "xmax", "ymax"),
    ("left", "top", "right", "bottom"),
    ("x", "y"),
)
"""Keys under which other programs write a box or point; the first set that is there counts."""


def _numbers(plain: object, length: int, what: str, row: Row) -> tuple[float, ...]:
    """Return the `length` numbers of a box (4) or point (2).

    Raises:
        ParseError: it is not a list of such numbers. For a known other form, the message has the
            command that converts it.
    """
    try:
        return finite_numbers(plain, length, what)
    except ParseError as error:
        programs = _place_programs(plain, length)
        if programs:
            conversions = [
                (f"If {condition}, " if condition else "")
                + f"{rewrite(row.kind, f'map(({program})? // .)', row.file)} makes such lists"
                for condition, program in programs.items()
            ]
            raise ParseError(f"{error}. {'. '.join(conversions)}") from error
        if foreign_boxes.has_boxes(plain):
            raise ParseError(f"{error}. {of_boxes(row.file, plain)}") from error
        raise


def _place_programs(plain: object, length: int) -> dict[str, str]:
    """Return jq programs that convert a box or point to a list, by what the user must check first.

    That condition is "" for a form that has only one meaning. {} is returned for an unknown form.
    """
    if isinstance(plain, list) and len(plain) == length and all(type(i) is str for i in plain):
        return {"": "map(tonumber? // .)"}
    if isinstance(plain, str) and plain.lstrip().startswith("["):
        return {"": "fromjson | arrays"}
    if not isinstance(plain, dict):
        return {}
    keys = next((keys for keys in PLACE_KEYS if set(keys) <= plain.keys()), None)
    if keys is not None:
        if "width" in keys and length == len(keys):
            centre = "[.x - .width / 2, .y - .height / 2, .x + .width / 2, .y + .height / 2]"
            of_centre = {"x and y are the centre, as Roboflow writes them": centre}
            if "detection_id" in plain:  # as in Roboflow's responses
                return of_centre
            corner = "[.x, .y, .x + .width, .y + .height]"
            return {"x and y are the left top corner": corner, **of_centre}
        return {"": f"[{', '.join(f'.{key}' for key in keys)}]"} if len(keys) == length else {}
    lists = [key for key, item in plain.items() if isinstance(item, list) and len(item) == length]
    if len(lists) != 1:
        return {}
    order = "[left, top, right, bottom]" if length == 4 else "[x, y]"
    return {f"{lists[0]} is {order} in pixels": f'."{lists[0]}"'}


def _value_list(row: Row) -> list[object]:
    """Return a row's value if it is a list of at most `MAX_BOXES`; raise ParseError otherwise."""
    if isinstance(row.value, dict):  # such as {"boxes": [[…], …]}: the first list of lists
        lists = [key for key, value in row.value.items() if value and isinstance(value, list)]
        key = next((key for key in lists if isinstance(row.value[key][0], list)), None)
        conversion = rewrite(row.kind, f'."{key}"', row.file)
        fix = f"{conversion} keeps them." if key else ""
        raise ParseError(f'"{row.kind}"', expected="a list", found="an object", fix=fix)
    if isinstance(row.value, str) and row.value.lstrip().startswith("["):
        fix = f"{rewrite(row.kind, 'fromjson | arrays', row.file)} makes lists of texts."
        raise ParseError(f'"{row.kind}"', expected="a list", found="a text", fix=fix)
    if not isinstance(row.value, list) or len(row.value) > MAX_BOXES:
        raise ParseError(
            f'"{row.kind}"',
            expected=f"a list of at most {MAX_BOXES}",
            found=_length_text(row.value),
        )
    return row.value


def _one_a_frame(value: object, query: Query, name: str, row: Row, what: str) -> list[object]:
    """Return a value if it is a list with one item for each frame; raise ParseError otherwise.

    `name` and `what` ("masks", "boxes") are for the message.
    """
    frames = len(query.media[0])
    if not isinstance(value, list) or len(value) != frames:
        fix = ""
        if isinstance(value, dict) and value and all(key.isdecimal() for key in value):
            by_number = rewrite(
                what, "(to_entries | sort_by(.key | tonumber) | map(.value))", row.file
            )
            fix = f"If its keys number the frames, {by_number} makes lists, where none is left out."
        expected = f"a list of {frames} {what}, one a frame, or null"
        raise ParseError(name, expected=expected, found=_length_text(value), fix=fix)
    return value


def _length_text(value: object) -> str:
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    return f"{len(value)} of them" if isinstance(value, list) else type(value).__name__


def _answer(row: Row, query: Query) -> Answer:
    """Parse an "answer": a letter, a number, a text or an interval [start, end] in seconds."""
    value, form = row.value, query.form
    if form in (AnswerForm.COUNT, AnswerForm.NUMBER) and isinstance(value, str):
        fix = _number_fix(value, row.file)
        raise ParseError('"answer"', expected="a finite number", found=repr(value)[:40], fix=fix)
    if form is AnswerForm.COUNT:
        if type(value) is not int or not 0 <= value <= MAX_COUNT:
            is_whole = type(value) is float and value.is_integer()
            rounding = "round as $n | if . == $n then $n else . end"
            fix = f"{rewrite('answer', rounding, row.file)} writes it so." if is_whole else ""
            if type(value) is float and 0 <= value <= MAX_COUNT and not is_whole:
                rounded = rewrite("answer", "round", row.file)
                fix = f"If a density map sums to it, {rounded} rounds: errors change by up to 0.5."
            expected = f"a whole number from 0 to {MAX_COUNT}"
            raise ParseError('"answer"', expected=expected, found=repr(value)[:40], fix=fix)
        return Answer(count=value)
    if form is AnswerForm.NUMBER:
        return Answer(number=finite_numbers([value], 1, '"answer"')[0])
    if form is AnswerForm.INTERVAL:
        _refuse_other_spans(value, row)
        interval = Interval(*finite_numbers(value, 2, '"answer"'))
        if interval.end < interval.start:
            turned = rewrite("answer", "[.[1], .[0]]", row.file)
            fix = f"If all are [end, start], {turned} turns them."
            raise ParseError('"answer"', expected="[start, end]", found=str([*interval]), fix=fix)
        return Answer(interval=interval)
    if form is AnswerForm.CHOICE:
        return Answer(choice=_letter(value, row, query))
    if form is AnswerForm.TEXT:
        if not isinstance(value, str):
            fix = f"{rewrite('answer', 'tostring', row.file)} writes numbers as texts"
            is_truth = isinstance(value, bool)
            if value in (0, 1):
                one, zero = ("true", "false") if is_truth else ("1", "0")
                yes = f'if .answer == {one} then .answer = "yes"'
                yes += f' elif .answer == {zero} then .answer = "no" else . end'
                if_yes = f"If {one} is yes: {command(yes, row.file)}"
                fix = if_yes if is_truth else f"{fix}. {if_yes}"
            raise ParseError('"answer"', expected="text", found=repr(value)[:40], fix=fix)
        return Answer(text=value)
    raise ParseError(
        '"answer"', expected=f'"masks", "boxes" or "points" for a {form} question', found='"answer"'
    )


def _number_fix(value: str, file: str) -> str:
    """Return the fix for a text in place of a number: a jq command that keeps other texts."""
    if value.strip().lower() in MISSING_NUMBERS:
        nothing = json.dumps(sorted(MISSING_NUMBERS))
        condition = f"tostring | ascii_downcase | IN({nothing}[])"
        return f"If the model gave none, {failed_where(condition, file)} makes failures of them."
    numbers = rewrite("answer", "tonumber", file)
    is_number = re.fullmatch(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*", value)
    command = f"{numbers}, or name" if is_number else "Name"
    return f'{command} what the model wrote "response".'


def _letter(value: object, row: Row, query: Query) -> str:
    """Return the letter of a choice as a capital; raise ParseError for another value."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(query.options) or 26]
    match = LETTER_PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match is not None and match[1].upper() in letters:
        return match[1].upper()
    fix = 'What a model wrote is a "response", null if it gave none.'
    if re.fullmatch(r"\d{1,2}", str(value).strip()):
        # A number is the index of its letter; the space shifts the index of numbers from 1.
        from_0, from_1 = (number_of_option(start, letters, row.file) for start in ("", " "))
        fix = f"Of options that are counted from 1: {from_1}; from 0: {from_0}."
    expected = f"an option's letter, {letters[0]} to {letters[-1]}"
    raise ParseError('"answer"', expected=expected, found=repr(value)[:40], fix=fix)


def _is_clock(value: object) -> bool:
    return isinstance(value, str) and CLOCK_TIME.fullmatch(value) is not None


def _refuse_other_spans(value: object, row: Row) -> None:
    """Raise ParseError, with the conversion, for several intervals or one in a known other form."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        described, program = f"{len(value)} intervals", ".[0][:2]"
        first = rewrite("answer", program, row.file)
        fix = f"{first} keeps the first of each line, if that one counts."
    elif isinstance(value, list) and len(value) == 3:
        described = f"{str(value)[:40]}, as with a score"
        program = 'if type == "array" and length == 3 then .[:2] else . end'
        fix = f"{rewrite('answer', program, row.file)} leaves the score out."
    elif isinstance(value, dict) and {"start", "end"} <= value.keys():
        described, program = "an object", "[.start, .end]"
        fix = f"{rewrite('answer', program, row.file)} makes lists of them."
    elif isinstance(value, list) and len(value) == 2 and all(map(_is_clock, value)):
        described = str(value)[:40]
        program = f"map({CLOCK_TO_SECONDS})"
        fix = f"{rewrite('answer', program, row.file)} makes seconds of hours, minutes and seconds."
    elif isinstance(value, str) and value.lstrip().startswith("["):
        described, program = repr(value)[:40], "fromjson | arrays"
        fix = f"{rewrite('answer', program, row.file)} makes lists of texts."
    elif isinstance(value, str):
        described = repr(value)[:40]
        program = 'if (.answer | type) == "string" then {id, response: .answer} else . end'
        fix = f"{command(program, row.file)}: then the parser of --model reads the text."
    else:
        return
    raise ParseError('"answer"', expected="[start, end] in seconds", found=described, fix=fix)


def _no_target(row: Row, query: Query) -> Answer:
    if row.value is not True:
        raise ParseError('"no_target"', expected="true", found=repr(row.value)[:40])
    return Answer(no_target=True)


_READERS = {
    "masks": _masks,
    "instances": _instances,
    "boxes": _boxes,
    "points": _points,
    "answer": _answer,
    "no_target": _no_target,
}


class TextReader(Protocol):
    """A model that parses responses: a `model.ResponseReader`."""

    def read(self, query: Query, responses: Sequence[str], /) -> Prediction:
        """Return the prediction of responses: parse, rescale and segment them."""


def row_to_prediction(row: Row, query: Query, reader: "TextReader | None" = None) -> Prediction:
    """Return the prediction of a row; `reader` parses a "response".

    A row with null is a failure of the model.

    Raises:
        DataError: the row does not fit the question.
        UsageError: the row is a response, and there is no reader.
    """
    if row.value is None:
        failure = Failure(FailureKind.MODEL, f"{row.where}: no {row.kind}")
        return Prediction(query_id=query.id, failure=failure)
    if row.responses is None:
        return Prediction(query_id=query.id, answer=row_to_answer(row, query))
    if reader is None:
        located = {AnswerForm.BOXES, AnswerForm.POINTS, AnswerForm.COUNT} & {*query.forms}
        prompt = ",prompt=locate" if located else ""
        raise UsageError(
            f'{row.where}: a "response"',
            expected="a model that parses it",
            found="no model",
            fix=f'Give one, such as --model "qwen_vl(backend=stored{prompt})".',
        )
    return reader.read(query, row.responses)

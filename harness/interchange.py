"""Answers and predictions as plain JSON: the journal's form, and the form for other programs.

A line of a predictions file is one JSON object: `{"id": official id, …}` with one of

    "response"      text, or a list of texts, read by the parser and segmenter of a model
    "boxes"      [[left, top, right, bottom], …] in original pixels, with "box_scores" if any; for
                 a track one a frame, null where a frame does not show it
    "points"     [[x, y], …] in original pixels
    "masks"      one COCO run-length a frame, or null for a frame that was predicted empty
    "instances"  such a list for each object, with "box_scores" if any
    "answer"     a letter, number, text or [start, end], as the question asks
    "no_target"  true: the query refers to nothing that is there
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol

from harness.coordinates import Coordinates, in_pixels
from harness.errors import DataError, MaskError, ParseError, StoreError, UsageError, raised_as
from harness.files import lines_of, open_regular
from harness.foreign import other_encoding, refuse_foreign, refuse_list, refuse_zeros
from harness.foreign_lines import (
    command,
    failed_where,
    number_of_option,
    of_line,
    of_whole,
    other_keys,
    polygons,
    rewrite,
    way_out,
)
from harness.masks import Rle
from harness.plain import from_plain, to_plain
from harness.responses import STRICT, finite_numbers, storable
from harness.types import (
    Adaptation,
    Answer,
    AnswerForm,
    Box,
    Call,
    Failure,
    FailureKind,
    Interval,
    Parsed,
    Point,
    Prediction,
    Query,
    Request,
    Usage,
)

KINDS = ("response", "boxes", "points", "masks", "instances", "answer", "no_target")
FITTING = {
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
"""Kinds of rows that can answer a question, by the question's form of answer."""

USAGE = tuple(field.name for field in fields(Usage))
MAX_LINE = 64 * 2**20  # bytes of one line of a predictions file
MAX_BOXES = 100_000
MAX_COUNT = 10**9
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LETTER = re.compile(r"\s*\(?\s*([A-Za-z])\s*[).:]?\s*")
"""A letter as an "answer", alone or as a label is written: `B`, `b`, `(B)`, `B.`."""

NO_NUMBERS = frozenset({"", "na", "n/a", "nan", "none", "null"})
"""Texts that tables have in the place of a number, in small letters."""

CLOCK = re.compile(r"\d+(?::\d\d){0,2}(?:\.\d+)?")
SECONDS = 'split(":") | map(tonumber) | reduce .[] as $part (0; . * 60 + $part)'
"""jq's program that makes seconds of a time as a clock shows it."""


@dataclass(frozen=True, slots=True)
class Written:
    """Meaning of a file's numbers, where its author states it."""

    coordinates: Coordinates = "pixels"
    """Meaning of the numbers of "boxes" and "points"; pixels are those of the original image."""
    by_rows: bool = False
    """Run-lengths go along the rows of the image, not down its columns."""


AS_DOCUMENTED = Written()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a predictions file."""

    id: str
    kind: str
    value: object
    box_scores: tuple[float, ...] | None
    where: str
    """File and line, for messages."""
    written: Written = AS_DOCUMENTED

    @property
    def file(self) -> str:
        """The file's name, for a command to type."""
        return _file(self.where)

    @property
    def responses(self) -> tuple[str, ...] | None:
        """The texts of a "response" row; None for the others."""
        if self.kind != "response":
            return None
        texts = self.value if isinstance(self.value, list) else [self.value]
        if not all(isinstance(text, str) for text in texts):
            raise DataError(
                f'{self.where}: "response"', expected="text or a list of texts", found="others"
            )
        return tuple(texts)


def read_rows(path: Path) -> Iterator[Row]:
    """Read a predictions file line by line.

    Raises:
        DataError: the file is missing or packed, a line is not a JSON object of this form, or an id
            occurs twice. The line's number is given.
    """
    return (row for row, _, _ in _rows(path))


class RowFile(Mapping[str, Row]):
    """Rows of a predictions file by id; each is parsed again at every access.

    Masks of a thousand expressions take a gigabyte once parsed, so only ids and offsets are held.
    """

    def __init__(self, path: Path, written: Written = AS_DOCUMENTED) -> None:
        """Read the file once.

        Args:
            path: The file.
            written: What its numbers mean.

        Raises:
            DataError: as for `read_rows`.
        """
        self.path, self.written = path, written
        self._places = {row.id: (number, offset) for row, number, offset in _rows(path)}

    def __getitem__(self, name: str) -> Row:
        number, offset = self._places[name]
        with open_regular(self.path) as file:
            file.seek(offset)
            row = _row(file.readline(MAX_LINE + 1), f"{self.path}, line {number}")
        if row.id != name:
            raise DataError(
                row.where,
                expected=f"id {name!r}, as before",
                found=repr(row.id)[:60],
                fix="Another program writes there.",
            )
        return replace(row, written=self.written)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def where(self, name: str) -> str:
        """File and line of a row, for messages."""
        return f"{self.path}, line {self._places[name][0]}"


def _rows(path: Path) -> Iterator[tuple[Row, int, int]]:
    """Yield each row, its line's number from 1, and the byte at which the line begins."""
    seen: set[str] = set()
    for number, offset, line in json_lines(path):
        row = _row(line, f"{path}, line {number}")
        if row.id in seen:
            raise DataError(
                f"{row.where}: id {row.id!r}", expected="each id once", found="it a second time"
            )
        seen.add(row.id)
        yield row, number, offset


def json_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield the number (from 1), place and content of each line of predictions that is not blank.

    Raises:
        DataError: the file is missing, packed, or something else in its place.
    """
    refuse_foreign(path, DataError, f"predictions {path}", "JSON lines", text=True)
    with raised_as(DataError, f"predictions {path}", "a readable file", OSError):
        for number, offset, line in lines_of(path, MAX_LINE):
            mark = len(BYTE_ORDER_MARK) if number == 1 and line.startswith(BYTE_ORDER_MARK) else 0
            if number == 1:
                _refuse_whole(path, line[mark:].strip())
                refuse_list(path, line[mark:].lstrip(), f"predictions {path}")
            if line[mark:].strip():
                yield number, offset + mark, line[mark:]


def _refuse_whole(path: Path, start: bytes) -> None:
    """Raise DataError if a file begins with an object over several lines, or a list of objects."""
    opens = start.startswith(b"[") or (start.startswith(b"{") and not start.endswith(b"}"))
    if not opens or path.stat().st_size > MAX_LINE:  # a whole line says nothing of the others
        return
    try:
        text = path.read_bytes().decode("utf-8-sig").lstrip()
        plain, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return  # the first line is refused as it is
    is_list = isinstance(plain, list)
    if not (plain and isinstance(plain[0], dict) if is_list else "\n" in text[:end]):
        return
    raise DataError(
        f"predictions {path}" if is_list else f"{path}, line 1",
        expected="one JSON object a line",
        found="a list" if is_list else "one over several lines",
        fix=of_whole(plain, path.name, ("box_scores", *KINDS)),
    )


def _row(line: bytes, where: str) -> Row:
    if len(line) > MAX_LINE:
        raise DataError(
            where,
            expected=f"at most {MAX_LINE} bytes",
            found="a longer line",
            fix="Give masks as compressed run-lengths.",
        )
    refuse_zeros(line, where)
    encoded = "" if b"\0" in line else other_encoding(_file(where))
    with raised_as(DataError, where, "text in UTF-8", UnicodeDecodeError, fix=encoded):
        text = line.decode("utf-8")
    fix = of_line(line, _file(where))
    with raised_as(DataError, where, "one JSON object", ValueError, RecursionError, fix=fix):
        plain = json.loads(text, **STRICT)
    if not isinstance(plain, dict) or not isinstance(plain.get("id"), str):
        raise DataError(
            where,
            expected='an object with a text "id"',
            found=repr(plain)[:60],
            fix=way_out(plain, _file(where)),
        )
    if plain["id"] != storable(plain["id"]):
        raise DataError(where, expected='an "id" of whole characters', found=repr(plain["id"])[:60])
    given = [kind for kind in KINDS if kind in plain]
    unknown = set(plain) - {"id", "box_scores", *KINDS}
    if len(given) != 1 or unknown:
        raise DataError(
            where,
            expected=f"exactly one of {', '.join(KINDS)}",
            found=", ".join([*given, *sorted(unknown)]) or "none",
            fix=other_keys(plain, unknown, _file(where)) if unknown else "",
        )
    scores = plain.get("box_scores")
    if scores is not None:
        scored = plain.get("boxes", plain.get("instances"))
        try:
            scores = finite_numbers(
                scores, len(scored) if isinstance(scored, list) else 0, f"{where}: box_scores"
            )
        except ParseError as error:
            is_nested = isinstance(scores, list) and any(
                isinstance(score, list) for score in scores
            )
            flat = f". {rewrite('box_scores', 'flatten', _file(where))} makes numbers of lists"
            raise DataError(f"{error}{flat if is_nested else ''}") from error
    return Row(plain["id"], given[0], plain[given[0]], scores, where)


def _file(where: str) -> str:
    """Return the name of the file of a place in it."""
    return where.rpartition(", line ")[0].rpartition("/")[2] or where


def row_to_answer(row: Row, query: Query) -> Answer:
    """Return the answer of a row that is not a response, checked against the query's frames.

    Raises:
        DataError: its number of frames or its size differs from the media's, it is not a number
            where one is asked for, …: a mistake of whoever wrote the file, never a low score.
    """
    if row.kind not in FITTING[query.form]:
        raise DataError(
            f"{row.where} (id {row.id!r})",
            found=f'"{row.kind}"',
            expected=f"{' or '.join(FITTING[query.form])} for a {query.form} question",
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
    if isinstance(value, list) and value and all(isinstance(part, list) for part in value):
        value = [number for part in value if len(part) == 2 for number in part]
    return (
        isinstance(value, list)
        and len(value) >= 6
        and all(type(number) in (int, float) for number in value)
    )


def _instances(row: Row, query: Query) -> Answer:
    given = _listed(row)
    tracks = [_track(row, item, query, f"instance {index}") for index, item in enumerate(given)]
    width, height = query.size
    nothing = [(Rle.empty(height, width),) * len(query.media[0])]
    return Answer(
        masks=tuple(Rle.union(*frame) for frame in zip(*(tracks or nothing), strict=True)),
        instances=tuple(tracks),
        box_scores=row.box_scores,
        no_target=not tracks,
    )


def _track(row: Row, value: object, query: Query, name: str) -> tuple[Rle, ...]:
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
            turned = mask.size == (height, width)
            raise ParseError(
                what,
                expected=f'"size": [{height}, {width}], as the image is',
                found=f"[{mask.height}, {mask.width}]",
                fix='"size" is [height, width], and runs go down the columns.'
                if turned
                else "Masks are never resized here: write them at full size.",
            )
        masks.append(mask)
    return tuple(masks)


def _boxes(row: Row, query: Query) -> Answer:
    if query.form is AnswerForm.BOX_TRACK:
        return _box_track(row, query)
    boxes = tuple(_box(box, row, query) for box in _listed(row))
    return Answer(boxes=boxes, box_scores=row.box_scores)


def _box_track(row: Row, query: Query) -> Answer:
    """Parse one box for each frame, null where the object is not visible."""
    given = _one_a_frame(row.value, query, '"boxes"', row, "boxes")
    return Answer(
        box_track=tuple(None if item is None else _box(item, row, query) for item in given)
    )


def _box(plain: object, row: Row, query: Query) -> Box:
    numbers = _numbers(plain, 4, "box", row)
    box = Box(*in_pixels(numbers, row.written.coordinates, query.size))
    if box.right <= box.left or box.bottom <= box.top:
        raise ParseError("box", expected="left < right and top < bottom", found=str(tuple(box)))
    return box


def _points(row: Row, query: Query) -> Answer:
    numbers = [_numbers(item, 2, "point", row) for item in _listed(row)]
    coordinates = row.written.coordinates
    return Answer(points=tuple(Point(*in_pixels(xy, coordinates, query.size)) for xy in numbers))


KEYS = (
    ("x", "y", "width", "height"),
    ("x1", "y1", "x2", "y2"),
    ("xmin", "ymin", "xmax", "ymax"),
    ("left", "top", "right", "bottom"),
    ("x", "y"),
)
"""Keys under which other programs write boxes and points."""


def _numbers(plain: object, length: int, what: str, row: Row) -> tuple[float, ...]:
    """Return the numbers of a box or point; raise ParseError with what makes them of a form."""
    try:
        return finite_numbers(plain, length, what)
    except ParseError as error:
        if program := _place_program(plain, length):
            conversion = rewrite(row.kind, f"map(({program})? // .)", row.file)
            raise ParseError(f"{error}. {conversion} makes such lists") from error
        raise


def _place_program(plain: object, length: int) -> str | None:
    """Return jq's program that makes a list of a box or point in another form, if it is known."""
    if isinstance(plain, list) and len(plain) == length and all(type(i) is str for i in plain):
        return "map(tonumber? // .)"
    if isinstance(plain, str) and plain.lstrip().startswith("["):
        return "fromjson | arrays"
    if not isinstance(plain, dict):
        return None
    if keys := next((keys for keys in KEYS if set(keys) <= plain.keys()), None):
        if "width" in keys:
            return "[.x, .y, .x + .width, .y + .height]"
        return f"[{', '.join(f'.{key}' for key in keys)}]" if len(keys) == length else None
    lists = [key for key, item in plain.items() if isinstance(item, list) and len(item) == length]
    return f'."{lists[0]}"' if len(lists) == 1 else None


def _listed(row: Row) -> list[object]:
    if isinstance(row.value, dict):
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
            f'"{row.kind}"', expected=f"a list of at most {MAX_BOXES}", found=_length(row.value)
        )
    return row.value


def _one_a_frame(value: object, query: Query, name: str, row: Row, what: str) -> list[object]:
    frames = len(query.media[0])
    if not isinstance(value, list) or len(value) != frames:
        fix = ""
        if isinstance(value, dict) and value and all(key.isdecimal() for key in value):
            by_number = rewrite(
                what, "(to_entries | sort_by(.key | tonumber) | map(.value))", row.file
            )
            fix = f"If its keys number the frames, {by_number} makes lists, where none is left out."
        expected = f"a list of {frames} {what}, one a frame, or null"
        raise ParseError(name, expected=expected, found=_length(value), fix=fix)
    return value


def _length(value: object) -> str:
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    return f"{len(value)} of them" if isinstance(value, list) else type(value).__name__


def _answer(row: Row, query: Query) -> Answer:
    value, form = row.value, query.form
    if form in (AnswerForm.COUNT, AnswerForm.NUMBER) and isinstance(value, str | None):
        fix = _number_fix(value, row.file)
        raise ParseError('"answer"', expected="a finite number", found=repr(value)[:40], fix=fix)
    if form is AnswerForm.COUNT:
        if type(value) is not int or not 0 <= value <= MAX_COUNT:
            is_whole = type(value) is float and value.is_integer()
            whole = "round as $n | if . == $n then $n else . end"
            fix = f"{rewrite('answer', whole, row.file)} writes it so." if is_whole else ""
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
            raise ParseError('"answer"', expected="text", found=repr(value)[:40])
        return Answer(text=value)
    raise ParseError(
        '"answer"', expected=f'"masks", "boxes" or "points" for a {form} question', found='"answer"'
    )


def _number_fix(value: str | None, file: str) -> str:
    """Return what to type where a number is a text or null; other texts of the file are kept."""
    if value is None or value.strip().lower() in NO_NUMBERS:
        nothing = json.dumps(sorted(NO_NUMBERS))
        condition = f". == null or (tostring | ascii_downcase | IN({nothing}[]))"
        return f"If the model gave none, {failed_where(condition, file)} makes failures of them."
    numbers = rewrite("answer", "tonumber", file)
    is_number = re.fullmatch(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*", value)
    command = f"{numbers}, or name" if is_number else "Name"
    return f'{command} what the model wrote "response".'


def _letter(value: object, row: Row, query: Query) -> str:
    """Return the letter of a choice as a capital; raise ParseError for what names none."""
    letter = LETTER.fullmatch(value) if isinstance(value, str) else None
    if letter is not None:
        return letter[1].upper()
    fix = 'What a model wrote is a "response", null if it gave none.'
    if re.fullmatch(r"\d{1,2}", str(value).strip()):
        places = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(query.options) or 26]
        from_0, from_1 = (number_of_option(start, places, row.file) for start in ("", " "))
        fix = f"Of options that are counted from 1: {from_1}; from 0: {from_0}."
    raise ParseError('"answer"', expected="an option's letter", found=repr(value)[:40], fix=fix)


def _is_clock(value: object) -> bool:
    return isinstance(value, str) and CLOCK.fullmatch(value) is not None


def _refuse_other_spans(value: object, row: Row) -> None:
    """Raise ParseError for several intervals, or for one in another form, with what makes one."""
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
        program = f"map({SECONDS})"
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
    """A model that reads responses, as a `model.ResponseReader` does."""

    def read(self, query: Query, responses: Sequence[str], /) -> Prediction:
        """Parse, rescale and segment."""


def row_to_prediction(row: Row, query: Query, reader: "TextReader | None" = None) -> Prediction:
    """The prediction of a row; a response is read by `reader`, a `model.ResponseReader`.

    A response that is null is a failure of the model.
    """
    if row.kind == "response" and row.value is None:
        failure = Failure(FailureKind.MODEL, f"{row.where}: no response")
        return Prediction(query_id=query.id, failure=failure)
    if row.responses is None:
        return Prediction(query_id=query.id, answer=row_to_answer(row, query))
    if reader is None:
        raise UsageError(
            f'{row.where}: a "response"',
            expected="a model that parses it",
            found="no model",
            fix='Give one, such as --model "qwen_vl(backend=stored)".',
        )
    return reader.read(query, row.responses)


def as_requested(query: Query, answer: Answer) -> Answer:
    """A ground truth as a perfect answer: without `instances`, unless the query asks for them."""
    return answer if query.instances else replace(answer, instances=None)


def answer_to_json(answer: Answer) -> dict[str, object]:
    """Plain data with the fields that were given."""
    plain: dict[str, object] = to_plain(answer)
    return plain


def prediction_to_json(prediction: Prediction) -> dict[str, object]:
    """Plain data for the journal; text is made storable, nothing else is changed.

    Nothing stands there twice: a request that equals an earlier call's is that call's number, and
    so is a response that is a call's response. Without `responses`, they are the calls' responses.
    """
    plain: dict[str, object] = {"query_id": prediction.query_id}
    if prediction.answer is not None:
        plain["answer"] = answer_to_json(prediction.answer)
    if prediction.failure is not None:
        plain["failure"] = [prediction.failure.kind, storable(prediction.failure.message, 2000)]
    if prediction.calls:
        plain["calls"] = _calls_to_json(prediction.calls)
    if prediction.responses != tuple(call.response for call in prediction.calls):
        plain["responses"] = _responses_to_json(prediction)
    if prediction.parsed:
        plain["parsed"] = [to_plain(parsed) for parsed in prediction.parsed]
    plain["usage"] = [getattr(prediction.usage, name) for name in USAGE]
    if prediction.notes:
        plain["notes"] = list(map(storable, prediction.notes))
    if prediction.adaptation is not None:
        plain["adaptation"] = to_plain(prediction.adaptation)
    return plain


def prediction_from_json(plain: Mapping[str, Any]) -> Prediction:
    """The inverse of `prediction_to_json`."""
    calls = _calls_from_json(plain.get("calls", ()))
    return Prediction(
        query_id=plain["query_id"],
        answer=from_plain(Answer, plain["answer"]) if "answer" in plain else None,
        failure=(
            Failure(FailureKind(plain["failure"][0]), plain["failure"][1])
            if "failure" in plain
            else None
        ),
        responses=tuple(
            calls[response].response or "" if isinstance(response, int) else response
            for response in plain.get("responses", range(len(calls)))
        ),
        calls=calls,
        parsed=tuple(from_plain(Parsed, parsed) for parsed in plain.get("parsed", ())),
        usage=Usage(**dict(zip(USAGE, plain["usage"], strict=True))),
        notes=tuple(plain.get("notes", ())),
        adaptation=from_plain(Adaptation, plain["adaptation"]) if "adaptation" in plain else None,
    )


def stored_prediction(record: Mapping[str, Any], folder: Path) -> Prediction:
    """Return the prediction in a record of the journal of a run folder.

    Raises:
        StoreError: it is none that this version reads, such as one that a later version wrote.
    """
    unfit = AttributeError, IndexError, KeyError, TypeError, ValueError
    with raised_as(StoreError, f"journal in {folder}", "predictions of this version", *unfit):
        return prediction_from_json(record["prediction"])


def _calls_to_json(calls: Sequence[Call]) -> list[dict[str, object]]:
    numbers: dict[Request, int] = {}
    plain = []
    for number, call in enumerate(calls):
        first = numbers.setdefault(call.request, number)
        entry: dict[str, object] = {"request": to_plain(call.request) if first == number else first}
        if call.key:
            entry["key"] = call.key
        if call.response is not None:
            entry["response"] = storable(call.response)
        if call.model:
            entry["model"] = storable(call.model)
        plain.append(entry)
    return plain


def _calls_from_json(plain: Sequence[Mapping[str, Any]]) -> tuple[Call, ...]:
    requests: list[Request] = []
    for entry in plain:
        request = entry["request"]
        requests.append(
            requests[request] if isinstance(request, int) else from_plain(Request, request)
        )
    return tuple(
        Call(
            request=request,
            key=entry.get("key", ""),
            response=entry.get("response"),
            model=entry.get("model", ""),
        )
        for request, entry in zip(requests, plain, strict=True)
    )


def _responses_to_json(prediction: Prediction) -> list[int | str]:
    """Return each response as the number of the call whose response it is, or as text."""
    responses = [call.response for call in prediction.calls]
    plain: list[int | str] = []
    start = 0
    for response in prediction.responses:
        if response in responses[start:]:
            plain.append(responses.index(response, start))
            start = responses.index(response, start) + 1
        else:  # a frame was named before it, or nothing was called
            plain.append(storable(response))
    return plain

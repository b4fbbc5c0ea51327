"""Find the form of answers, and the convention that they are written in, by their values.

Where the values allow several, a doubt names these.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from html import unescape
from math import inf
from pathlib import Path
from string import ascii_uppercase

from harness.errors import ParseError
from harness.stated.intervals import stated_interval
from harness.tasks.table.cells import clock_span, only_window, polygons_of
from harness.tasks.table.conventions import CONVENTIONS
from harness.tasks.table.description import PARTS
from harness.tasks.table.draft_fields import NAMES
from harness.tasks.table.draft_options import letters_in
from harness.tasks.table.draft_text import first_of_thousands, looks_like, unlike_others
from harness.tasks.table.protocols import BITS
from harness.tasks.table.truth import LARGEST_FRACTION, named_sides
from harness.tasks.table.unread_fields import stated_order

Size = tuple[int, int] | None
ORDERS = ("xyxy", "xywh", "cxcywh")
PADDED = (
    "fractions of the image, or of the square that LLaVA pads it to? Those are not read: x in "
    "pixels is x * max(w, h) - (max(w, h) - w) / 2, y alike"
)
"""Doubt about boxes in fractions that may be of padded squares, as in LLaVA's mix665k."""
TIMES = re.compile("time|window|interval|span|moment", re.IGNORECASE)
"""Names of fields that hold times; such a field has intervals even if no video is known."""
ASKS_NUMBER = re.compile(r"\b(?:how|what|which|count|number|sum|total)\b", re.IGNORECASE)
"""A question, or a field's name, whose answers 1 and 0 are numbers."""
ASKS_PERCENT = re.compile(r"percent|per cent|%|百分", re.IGNORECASE)
"""Words of questions whose answer is a number of hundredths."""
OF_NUMBERED = re.compile(
    r"(?:.*[_. ])?(?:label|class|category|idx|index|id|option|choice)", re.IGNORECASE
)
"""Names of fields of the number of a class or an option."""
OF_REGIONS = re.compile(
    r"(?:.*[._ ])?(?:b?boxe?s?|bounding_?box(?:es)?|masks?|segmentations?|polygons?|rle(?:_mask)?"
    r"|encoded_?pixels)(?:_2d)?",
    re.IGNORECASE,
)
"""Names of fields that hold boxes or masks."""
ABOUT_ANSWER = re.compile(r"(?:.*_)?(?:confidence|id|type|kind|score|lang(?:uage)?)", re.I)
"""Names of fields that say something of an answer, and do not hold it."""
Y_FIRST = re.compile(r"(?:.*[._])?box_2d|(?:.*[._])?rois?|.*(?:yxyx|_yx)", re.IGNORECASE)
"""Names of fields of boxes that programs write with y first."""
PERCENT = (
    "all numbers are at most 100: are they percent of the image's sides? Polygons in percent are "
    "not read: write pixels"
)
HOLES = (
    "some polygons lie in others of their record: they belong to the mask, as in COCO. For holes, "
    "write run-lengths or images"
)
CODE = re.compile(r"0\d+|\d+[eE]\d+")
"""A text that is a number, and may be a code: `007`, `3E5`."""
PAIRS = re.compile(r"\d+ \d+(?: \d+ \d+)*")
PARTS_OF_SIDES = ("percent", "thousandths")
"""Frames whose numbers may also be pixels."""
OF_PAIRS = (
    "pairs of a start and a length, as on Kaggle: `from_pairs` of docs/predictions.md makes a mask "
    "of them, and Rle.from_array(mask).to_json() COCO's run-lengths, which are read"
)
MIN_SIDE = 200
"""Least side of images in pixels whose polygons rarely all lie between 0 and 100."""
ENTITY = re.compile(r"&(?:[a-z]{2,8}|#\d{1,5}|#x[0-9a-f]{1,4});", re.IGNORECASE)
"""A character as HTML writes it: `&amp;`."""
EDGE = 0.01
"""Part of a side, at most one pixel, by which a box may leave its image."""


@dataclass(frozen=True)
class Truth:
    """A form of answer, and the keys of the description that go with it."""

    form: str
    keys: dict[str, object] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    """Text that says what to check, by the key."""
    protocol: str = ""
    """The protocol, where another than the form's default is meant."""
    letters: str = ""
    """Letters of the options that all questions' texts have."""


@dataclass(frozen=True)
class Values:
    """The values of a field of the ground truth, and the media, options and texts beside them."""

    field: str
    values: Sequence[object]
    sizes: Sequence[Size]
    """Width and height of each value's image; None where it is not a file."""
    options: Sequence[Sequence[str]] | None
    """The texts of each record's options; None: the records have none."""
    has_video: bool
    questions: Sequence[str] = ()
    """The texts of the questions."""
    columns: Sequence[str] = ()
    """The columns that hold an option each."""
    modes: frozenset[str] = frozenset()
    """Orders and frames of boxes by fields such as `bbox_mode`."""
    has_semicolons: bool = False
    """True if the table's cells are between semicolons, as where commas stand before decimals."""

    def truth(self) -> Truth:
        """Return the form of the answers, and their convention as far as the values show it."""
        if self.options is not None:
            return self._choice(self.options)
        for truth in (self._boxes(), self._interval(), self._mask()):
            if truth is not None and self.has_video and truth.form in ("boxes", "mask"):
                doubt = f"{truth.form} are read of images alone, and not of videos"
                return replace(truth, doubts={**truth.doubts, "form": doubt})
            if truth is not None:
                return truth
        if self.values and self._are_yes_no():
            doubt = (
                "are 1, 0, true, false, y and n yes and no? They are read so, unless the form is "
                "number"
            )
            return Truth("text", doubts={"form": doubt}, protocol="text/yes_no")
        if self.values and all(map(_is_number, self.values)):
            whole = all(float(str(value)).is_integer() for value in self.values)
            texts = (str(value).strip() for value in self.values if type(value) is not float)
            if code := next(filter(CODE.fullmatch, texts), ""):
                why = "begins with 0" if code[0] == "0" else "has an E"
                doubt = f"{code!r} {why}: is it a number, or a text such as a code?"
                return Truth("number", doubts={"form": doubt})
            if whole and OF_NUMBERED.fullmatch(self.field):
                doubt = "are they numbers of options or classes? Write their texts, or options"
                return Truth("number", doubts={"form": doubt})
            if any(float(str(value)) == -1 for value in self.values) and any(
                float(str(value)) > 0 for value in self.values
            ):
                doubt = "may -1 stand for no answer? If so, remove the record"
                return Truth("number", doubts={"form": doubt})
            if TIMES.search(self.field):
                doubt = f"is {self.field} the answer, or the time of a frame?"
                return Truth("number", doubts={"form": doubt})
            first = first_of_thousands(
                self.values, self.questions, has_semicolons=self.has_semicolons
            )
            if first:
                meant = f"does {first!r} mean {first.replace('.', '')}?"
                doubt = f"{meant} It is read as {float(first)}: write thousands without a mark"
                return Truth("number", doubts={"form": doubt})
            are_parts = not whole and all(0 <= float(str(value)) <= 1 for value in self.values)
            if are_parts and all(map(ASKS_PERCENT.search, self.questions)):
                doubt = "are they parts of 1? Questions ask for percent"
                return Truth("number", doubts={"form": doubt})
            counted = whole and re.search("count|number", self.field, re.IGNORECASE)
            return Truth("count" if counted else "number")
        if self.values and all(map(_has_decimal_comma, self.values)):
            doubt = "some have commas: write decimals with a point, and thousands without a mark"
            return Truth("number", doubts={"form": doubt})
        return self._text()

    def _are_yes_no(self) -> bool:
        """Return True for truth values, and for 1 and 0 unless each question asks for a number."""
        texts = {str(value).strip().lower() for value in self.values}
        if not texts <= BITS.keys():
            return False
        ask_numbers = ASKS_NUMBER.search(self.field) or all(map(ASKS_NUMBER.search, self.questions))
        return not texts & {"1", "0"} or not ask_numbers

    def _text(self) -> Truth:
        """Return the form of texts, with a doubt where they look like something else."""
        for value in self.values:
            parts = value if isinstance(value, list) else [value]
            if any(isinstance(part, (dict, list)) for part in parts):
                doubt = f"{value!r:.60} is not a text: write texts, numbers in a list, or a mask"
                texts = [key for key, text in _fields_of(parts[0]) if isinstance(text, str)]
                texts = [key for key in texts if not ABOUT_ANSWER.fullmatch(key)]
                texts.sort(key=lambda key: not re.fullmatch(NAMES["answer"], key, re.I))
                if isinstance(value, list) and texts:
                    doubt += f'; field = "{self.field}.0.{texts[0]}" reads the first alone'
                return Truth("text", doubts={"form": " ".join(doubt.split())})
        rows = [
            len(value)
            for value in self.values
            if isinstance(value, list) and _is_row(value, len(value))
        ]
        if 4 in rows and max(rows) >= 6:
            doubt = "some have 4 numbers, as boxes, others corners of polygons: keep one kind by "
            return Truth("text", doubts={"form": f"{doubt}`where`, in a description each"})
        texts = [str(value).strip() for value in self.values]
        counts = [letters_in(question) for question in self.questions]
        letters = ascii_uppercase[: max(counts, default=0)] if all(counts) else ""
        single = r"[A-Ha-h]|\([a-h]\)" if letters else r"[A-H]"
        if texts and all(re.fullmatch(single, text) for text in texts):
            return Truth("choice", {"written": "letter"}, letters=letters)
        if letters and texts and all(re.match(r"\(?[A-Z][.):]", text) for text in texts):
            return Truth("choice", {"written": "marked"}, letters=letters)
        if texts and all(re.fullmatch(r"(?:yes|no)", text, re.IGNORECASE) for text in texts):
            return Truth("text", protocol="text/yes_no")
        pairs = list(zip(texts, counts, strict=False))
        if not letters and any(re.fullmatch(r"[A-H]", text) and n for text, n in pairs):
            n_asked = sum(map(bool, counts))
            doubt = f"{n_asked} of {len(counts)} questions have options: a description each, by "
            return Truth("text", doubts={"form": f'{doubt}`where`, with form = "choice" for them'})
        if letters:
            doubt = (
                f'questions have options, {letters}: is it form = "choice", letters = {letters!r}?'
            )
            return Truth("text", doubts={"form": doubt})
        if doubt := unlike_others(self.values, self.questions):
            return Truth("text", doubts={"form": doubt})
        if entity := next(filter(ENTITY.search, texts), ""):
            doubt = (
                f"{entity!r:.60} has characters as HTML writes them, responses have them plain: "
            )
            return Truth("text", doubts={"form": f"{doubt}write {unescape(entity)!r:.60}"})
        if self.has_video and (moment := next(filter(_states_moment, texts), "")):
            doubt = f"{moment!r:.60} states a time: is the form interval? Write [start, end] then"
            return Truth("text", doubts={"form": doubt})
        if odd := looks_like(self.values):
            doubt = f"{odd[1]!r} looks like {odd[0]}: is it a text? Numbers are written without a "
            doubt += "unit, intervals as two times, boxes as four numbers in a list"
            return Truth("text", doubts={"form": doubt[:200]})
        if OF_REGIONS.fullmatch(self.field):
            doubt = f"is {self.values[0]!r:.40} a box or a mask? It is read as a text"
            return Truth("text", doubts={"form": doubt})
        return Truth("text")

    def _choice(self, options: Sequence[Sequence[str]]) -> Truth:
        """Return the likeliest convention in which every value names one of its options."""
        texts = [str(value).strip() for value in self.values]
        places = {
            name: [read(*pair, self.columns) for pair in zip(texts, options, strict=True)]
            for name, read in CONVENTIONS.items()
        }
        fitting = {name: read for name, read in places.items() if None not in read}
        if not fitting:
            are_places = all(text.isdecimal() for text in texts)
            are_letters = all(re.fullmatch(r"[A-Za-z]", text) for text in texts)
            written = "place" if are_places else "letter" if are_letters else "option"
            doubts = {"written": "no such options are there"} if written != "option" else {}
            return Truth("choice", {"written": written}, doubts)
        written = next(iter(fitting))
        differing = [name for name, read in fitting.items() if read != fitting[written]]
        doubt = f"or {' or '.join(differing)}? The values allow each" if differing else ""
        return Truth("choice", {"written": written}, {"written": doubt} if doubt else {})

    def _boxes(self) -> Truth | None:
        """Return the first order and frame that fit all boxes; None if not all values are boxes."""
        orders, values = _of_sides(self.values)
        rows = [
            (row, size)
            for value, size in zip(values, self.sizes, strict=True)
            for row in _rows(value)
        ]
        if not rows or not all(_is_row(row, 4) for row, _ in rows):
            return None
        largest = max(max(row) for row, _ in rows)
        (mode,) = self.modes if len(self.modes) == 1 else ("",)
        frames = ["relative"] if largest <= LARGEST_FRACTION else ["pixels"]
        if largest > LARGEST_FRACTION:
            frames += [name for name, parts in PARTS.items() if largest <= parts]
        if stated := re.search("_(ABS|REL)$", mode.upper()):
            frames = ["pixels" if stated[1] == "ABS" else "relative"]
        orders = [order] if (order := stated_order(mode)) else orders
        allowed = _fitting(rows, orders, frames)
        keys: dict[str, object]
        if not allowed:
            doubt = f"no order of the numbers ({', '.join(ORDERS)}) fits all images"
            if _fitting([([y, x, b, a], size) for (x, y, a, b), size in rows], orders, frames):
                doubt += f". All fit with y first: {self._with_x_first()}"
            keys = {"written": orders[0], "coordinates": frames[0]}
            return Truth("boxes", keys, {"written": doubt})
        order, frame = allowed[0]
        keys = {"written": order, "coordinates": frame}
        doubts = {}
        for key, fitting in zip(keys, zip(*allowed, strict=True), strict=True):
            if len(set(fitting)) > 1:
                *others, last = dict.fromkeys(fitting)
                doubts[key] = f"{', '.join(others)} and {last} fit the values"
        if not stated and frame in PARTS_OF_SIDES:
            doubts.setdefault("coordinates", "or pixels, with the numbers in another order?")
        if not mode and (frame != "pixels" or Y_FIRST.fullmatch(self.field)):
            before = f"{doubts['written']}, " if "written" in doubts else ""
            doubts["written"] = f"{before}or is y first, as in Gemini's and TensorFlow's boxes? "
            doubts["written"] += self._with_x_first()
        return Truth("boxes", keys, doubts)

    def _with_x_first(self) -> str:
        """Return how to read boxes that are written with y first."""
        if any(isinstance(value, list) and _is_row(value, 4) for value in self.values):
            name = self.field
            return (
                f'field = "[{{{name}.1}}, {{{name}.0}}, {{{name}.3}}, {{{name}.2}}]" swaps x and y'
            )
        return "Write x before y"

    def _mask(self) -> Truth | None:
        """Return how masks are written: as polygons, run-lengths or images; None without masks."""
        flat = list(map(polygons_of, self.values))
        polygons = [row for value in flat for part in _parts(value) for row in _rows(part)]
        if polygons and all(len(row) >= 6 and _is_row(row, len(row)) for row in polygons):
            doubts = {}
            if flat != [*self.values]:
                doubts["form"] = "are pairs corners of a polygon, or points?"
            if _may_be_percent(polygons, self.sizes):
                doubts["written"] = PERCENT
            elif any(_has_hole([row for part in _parts(v) for row in _rows(part)]) for v in flat):
                doubts["written"] = HOLES
            return Truth("mask", {"written": "coco"}, doubts)
        if self.values and all(map(_is_run_length, self.values)):
            return Truth("mask", {"written": "coco"})
        if self.values and all(map(_is_image, self.values)):
            return Truth("mask", {"written": "image"})
        is_region = OF_REGIONS.fullmatch(self.field) and "box" not in self.field.lower()
        if is_region and all(PAIRS.fullmatch(str(v)) for v in self.values):
            return Truth("mask", {"written": "coco"}, {"written": OF_PAIRS})
        return None

    def _interval(self) -> Truth | None:
        """Return how intervals are written; None for values that are not times."""
        are_times = TIMES.search(self.field)
        if not (self.has_video or are_times) or not self.values:
            return None
        values = list(map(only_window, self.values))
        keys: dict[str, object] = {"written": "seconds"}
        doubt = "seconds, or milliseconds? Numbers of frames are not read"
        if all(_is_row(value, 2) for value in values):
            if all(max(row) <= 1 for value in values for row in _rows(value)):
                doubt = "all end within 1 s: parts of the video? Multiply those by its length"
            elif any(start >= end for value in values for start, end in _rows(value)):
                doubt += "; some end where they begin or before: are they [start, duration]?"
            return Truth("interval", keys, {"written": doubt})
        rows: list[object] = []
        for value in values:
            rows += _rows(value) or [None]
        if are_times and all(_is_row(row, 2) for row in rows):
            several = "some have several windows, and an interval is one"
            if any(start == end for value in values for start, end in _rows(value)):
                several += "; some end where they begin: are they numbers of pieces? Write seconds"
            return Truth("interval", keys, {"form": several})
        if not all(isinstance(value, (str, list)) and clock_span(value) for value in values):
            return None
        are_clocks = all(":" in str(value) for value in values)
        return Truth("interval", keys, {} if are_clocks else {"written": doubt})


def are_in_padded(values: Sequence[object], sizes: Sequence[Size]) -> bool:
    """Return True if boxes in fractions all lie on the image in the middle of a padded square.

    It is False if all images are square, or if not all sizes are known.
    """
    shares = [(side / max(size) for side in size) for size in sizes if size]
    inside = [
        (1 - share) / 2 - EDGE <= number <= (1 + share) / 2 + EDGE
        for value, sides in zip(values, map(tuple, shares), strict=False)
        for row in _rows(value)
        for number, share in zip(row, (*sides, *sides), strict=False)
    ]
    return len(shares) == len(sizes) and any(w != h for w, h in filter(None, sizes)) and all(inside)


def _fields_of(value: object) -> Iterable[tuple[str, object]]:
    """Return the fields of an object; none of another value."""
    return value.items() if isinstance(value, dict) else ()


def _parts(value: object) -> Iterable[object]:
    """Return the members of a list of lists; any other value as the only one."""
    return value if isinstance(value, list) and _rows(value) == value else [value]


def _states_moment(text: str) -> bool:
    """Return True for a sentence that states the start and the end of a stretch of time."""
    with suppress(ParseError):
        return bool(re.search("second|sec\\b|\\ds\\b|:", text)) and bool(stated_interval(text))
    return False


def _rows(value: object) -> list[list[float]]:
    """Return a list of lists as it is, any other list as the only row, and else no rows."""
    if isinstance(value, list) and value and all(isinstance(row, list) for row in value):
        return value
    return [value] if isinstance(value, list) and value else []


def _is_row(row: object, length: int) -> bool:
    """Return True for a list of `length` numbers."""
    return (
        isinstance(row, list)
        and len(row) == length
        and all(type(side) in (int, float) for side in row)
    )


def _is_run_length(value: object) -> bool:
    """Return True for a mask as COCO's run-length."""
    return isinstance(value, dict) and {"size", "counts"} <= value.keys()


def _is_image(value: object) -> bool:
    """Return True for an image as a table has it: its bytes, or the name of its file."""
    if isinstance(value, dict):
        return "bytes" in value
    return isinstance(value, str) and Path(value).suffix.lower() in (".png", ".jpg", ".bmp")


def _is_number(value: object) -> bool:
    """Return True for a number, or its text."""
    try:
        float(str(value))
    except ValueError:
        return False
    return not isinstance(value, bool) and "_" not in str(value)


def _has_decimal_comma(value: object) -> bool:
    """Return True for a number, or a text that is one but for its commas."""
    return _is_number(value) or bool(re.fullmatch(r"\s*[-+]?\d[\d.]*(?:,\d+)+\s*", str(value)))


def _bounds(frame: str, size: Size) -> tuple[float, float]:
    """Return the largest x and y in a frame of coordinates."""
    if frame == "pixels":
        return size or (inf, inf)
    return PARTS[frame], PARTS[frame]


def _of_sides(values: Sequence[object]) -> tuple[Sequence[str], Sequence[object]]:
    """Return (orders, boxes as lists) if all boxes are objects whose names fit them.

    All orders, and the values as they are, if there are others.
    """
    listed = [value if isinstance(value, list) else [value] for value in values]
    for written in ORDERS:
        boxes = [[named_sides(box, written) for box in members] for members in listed]
        if boxes and all(map(all, boxes)):
            return ("xywh", "cxcywh") if written == "xywh" else (written,), boxes
    return ORDERS, values


def _fitting(
    rows: Sequence[tuple[Sequence[float], Size]], orders: Sequence[str], frames: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the pairs of an order and a frame by which all boxes lie in their images."""
    return [
        (order, frame)
        for frame in frames
        for order in orders
        if all(_fits(row, order, _bounds(frame, size)) for row, size in rows)
    ]


def _may_be_percent(rows: Iterable[Sequence[float]], sizes: Sequence[Size]) -> bool:
    """Return True if all numbers are at most 100, some above 2, and all images are larger."""
    numbers = [number for row in rows for number in row]
    are_large = all(size is not None and min(size) >= MIN_SIDE for size in sizes)
    return are_large and 2 < max(numbers, default=0) <= 100 and min(numbers) >= 0


def _has_hole(polygons: Sequence[Sequence[float]]) -> bool:
    """Return True if all corners of a polygon lie in another one."""
    pairs = [list(zip(row[::2], row[1::2], strict=False)) for row in polygons]
    return any(
        first is not second and all(_is_inside(corner, second) for corner in first)
        for first in pairs
        for second in pairs
    )


def _is_inside(corner: tuple[float, float], polygon: Sequence[tuple[float, float]]) -> bool:
    """Return True if a ray to the right of a corner crosses an odd number of a polygon's edges."""
    x, y = corner
    edges = zip(polygon, [*polygon[1:], polygon[0]], strict=True)
    crossed = [
        x < x0 + (y - y0) * (x1 - x0) / (y1 - y0)
        for (x0, y0), (x1, y1) in edges
        if (y0 > y) != (y1 > y)
    ]
    return sum(crossed) % 2 == 1


def _fits(row: Sequence[float], order: str, bounds: tuple[float, float]) -> bool:
    """Return True if four numbers in this order are a box with an area within the bounds."""
    left, top, third, fourth = row
    if order == "xywh":
        third, fourth = left + third, top + fourth
    elif order == "cxcywh":
        left, third = left - third / 2, left + third / 2
        top, fourth = top - fourth / 2, top + fourth / 2
    slack = min(1.0, EDGE * min(bounds))
    inside = min(left, top) >= -slack and third <= bounds[0] + slack and fourth <= bounds[1] + slack
    return inside and third > left and fourth > top

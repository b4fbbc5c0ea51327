"""The form of answers and the convention that their values show; what they leave open is named."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from string import ascii_uppercase

from harness.tasks.table.cells import clock_span
from harness.tasks.table.draft_options import letters_in
from harness.tasks.table.draft_text import looks_like

Size = tuple[int, int] | None
ORDERS = ("xyxy", "xywh", "cxcywh")
EDGE = 0.01
"""Part of a side, at most one pixel, by which a box may leave its image."""


@dataclass(frozen=True)
class Truth:
    """A form of answer, and the keys of the description that go with it."""

    form: str
    keys: dict[str, object] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    """What to check, by the key."""
    protocol: str = ""
    """The protocol, where another than the form's default is meant."""
    letters: str = ""
    """Letters of the options that all questions' texts have."""


@dataclass(frozen=True)
class Values:
    """The values of a field of the ground truth, and what is known beside them."""

    field: str
    values: Sequence[object]
    sizes: Sequence[Size]
    """Width and height of each value's image; None where it is not a file."""
    options: Sequence[int] | None
    """The number of options of each record; None: the records have none."""
    has_video: bool
    questions: Sequence[str] = ()
    """The texts of the questions."""
    columns: Sequence[str] = ()
    """The columns that hold an option each."""

    def truth(self) -> Truth:
        """Return the form, and the convention as far as the values show it."""
        if self.options is not None:
            return self._choice(self.options)
        for truth in (self._boxes(), self._mask(), self._interval()):
            if truth is not None:
                return truth
        if self.values and all(map(_is_number, self.values)):
            whole = all(float(str(value)).is_integer() for value in self.values)
            counted = whole and re.search("count|number", self.field, re.IGNORECASE)
            return Truth("count" if counted else "number")
        if self.values and all(map(_has_decimal_comma, self.values)):
            doubt = "some have commas: write decimals with a point, and thousands without a mark"
            return Truth("number", doubts={"form": doubt})
        return self._text()

    def _text(self) -> Truth:
        """Return the form of texts, with a doubt where they look like something else."""
        texts = [str(value).strip() for value in self.values]
        counts = [letters_in(question) for question in self.questions]
        letters = ascii_uppercase[: max(counts, default=0)] if all(counts) else ""
        if texts and all(re.fullmatch(r"[A-H]", text) for text in texts):
            return Truth("choice", {"written": "letter"}, letters=letters)
        if letters and texts and all(re.match(r"\(?[A-Z][.):]", text) for text in texts):
            return Truth("choice", {"written": "marked"}, letters=letters)
        if texts and all(re.fullmatch(r"(?:yes|no)", text, re.IGNORECASE) for text in texts):
            return Truth("text", protocol="text/yes_no")
        if letters:
            doubt = (
                f'questions have options, {letters}: is it form = "choice", letters = {letters!r}?'
            )
            return Truth("text", doubts={"form": doubt})
        if odd := looks_like(self.values):
            doubt = f"{odd[1]!r} looks like {odd[0]}: is it a text? Numbers are written without a "
            doubt += "unit, intervals as two times"
            return Truth("text", doubts={"form": doubt[:200]})
        return Truth("text")

    def _choice(self, options: Sequence[int]) -> Truth:
        texts = [str(value).strip() for value in self.values]
        if self.columns and all(text in self.columns for text in texts):
            single = all(len(name) == 1 for name in self.columns)
            return Truth("choice", {"written": "letter" if single else "field"})
        if all(re.fullmatch(r"[A-Za-z]", text) for text in texts):
            return Truth("choice", {"written": "letter"})
        if all(re.match(r"\(?[A-Z][.):]", text) for text in texts):
            return Truth("choice", {"written": "marked"})
        if not all(text.isdecimal() for text in texts):
            return Truth("choice", {"written": "option"})
        places = [int(text) for text in texts]
        if 0 in places:
            return Truth("choice", {"written": "place"})
        if any(place == count for place, count in zip(places, options, strict=False)):
            return Truth("choice", {"written": "place_from_1"})
        doubt = "do places begin with 0, or with 1 (place_from_1)? The values allow both"
        return Truth("choice", {"written": "place"}, {"written": doubt})

    def _boxes(self) -> Truth | None:
        rows = [
            (row, size)
            for value, size in zip(self.values, self.sizes, strict=True)
            for row in _rows(value)
        ]
        if not rows or not all(_is_row(row, 4) for row, _ in rows):
            return None
        largest = max(max(row) for row, _ in rows)
        frames = ["relative"] if largest <= 1 else ["pixels"]
        if 1 < largest <= 1000:
            frames.append("thousandths")
        allowed = [
            (order, frame)
            for frame in frames
            for order in ORDERS
            if all(_fits(row, order, _bounds(frame, size)) for row, size in rows)
        ]
        if not allowed:
            doubt = f"no order of the numbers ({', '.join(ORDERS)}) fits all images"
            return Truth("boxes", {"written": "xyxy"}, {"written": doubt})
        order, frame = allowed[0]
        keys: dict[str, object] = {"written": order, "coordinates": frame}
        doubts = {}
        for key, fitting in zip(keys, zip(*allowed, strict=True), strict=True):
            if len(set(fitting)) > 1:
                doubts[key] = f"{' and '.join(dict.fromkeys(fitting))} fit the values"
        return Truth("boxes", keys, doubts)

    def _mask(self) -> Truth | None:
        polygons = [row for value in self.values for part in _parts(value) for row in _rows(part)]
        if polygons and all(len(row) >= 6 and _is_row(row, len(row)) for row in polygons):
            return Truth("mask", {"written": "coco"})
        if self.values and all(map(_is_run_length, self.values)):
            return Truth("mask", {"written": "coco"})
        if self.values and all(map(_is_image, self.values)):
            return Truth("mask", {"written": "image"})
        return None

    def _interval(self) -> Truth | None:
        if not self.has_video or not self.values:
            return None
        keys: dict[str, object] = {"written": "seconds"}
        doubt = "seconds, or milliseconds? Numbers of frames are not read"
        if all(_is_row(value, 2) for value in self.values):
            return Truth("interval", keys, {"written": doubt})
        if not all(isinstance(value, (str, list)) and clock_span(value) for value in self.values):
            return None
        are_clocks = all(":" in str(value) for value in self.values)
        return Truth("interval", keys, {} if are_clocks else {"written": doubt})


def _parts(value: object) -> Iterable[object]:
    return value if isinstance(value, list) and _rows(value) == value else [value]


def _rows(value: object) -> list[list[float]]:
    """Return a list of lists as it is, and one list of numbers as the only one."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        return value
    return [value] if isinstance(value, list) and value else []


def _is_row(row: object, length: int) -> bool:
    return (
        isinstance(row, list)
        and len(row) == length
        and all(type(side) in (int, float) for side in row)
    )


def _is_run_length(value: object) -> bool:
    return isinstance(value, dict) and {"size", "counts"} <= value.keys()


def _is_image(value: object) -> bool:
    if isinstance(value, dict):
        return "bytes" in value
    return isinstance(value, str) and Path(value).suffix.lower() in (".png", ".jpg", ".bmp")


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return not isinstance(value, bool)


def _has_decimal_comma(value: object) -> bool:
    """Return True for a number, or a text that is one but for its commas."""
    return _is_number(value) or bool(re.fullmatch(r"\s*[-+]?\d[\d.]*(?:,\d+)+\s*", str(value)))


def _bounds(frame: str, size: Size) -> tuple[float, float]:
    if frame == "pixels":
        return size or (inf, inf)
    return (1.0, 1.0) if frame == "relative" else (1000.0, 1000.0)


def _fits(row: Sequence[float], order: str, bounds: tuple[float, float]) -> bool:
    left, top, third, fourth = row
    if order == "xywh":
        third, fourth = left + third, top + fourth
    elif order == "cxcywh":
        left, third = left - third / 2, left + third / 2
        top, fourth = top - fourth / 2, top + fourth / 2
    slack = min(1.0, EDGE * min(bounds))
    inside = min(left, top) >= -slack and third <= bounds[0] + slack and fourth <= bounds[1] + slack
    return inside and third > left and fourth > top

"""Guess the form and the convention of a table's answers from their values, for a draft.

The first form that fits wins; doubts are questions to the user where another one fits too.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from html import unescape
from string import ascii_uppercase

from harness.errors import ParseError
from harness.stated.intervals import stated_interval
from harness.tasks.table.cells import clock_span, only_window
from harness.tasks.table.conventions import CONVENTIONS
from harness.tasks.table.draft_boxes import truth_of_boxes
from harness.tasks.table.draft_fields import NAMES
from harness.tasks.table.draft_masks import REGION_FIELD, truth_of_masks
from harness.tasks.table.draft_numbers import truth_of_numbers
from harness.tasks.table.draft_options import letters_in
from harness.tasks.table.draft_text import looks_like, unlike_others
from harness.tasks.table.draft_values import TIMES, Size, Truth, is_row, rows_of
from harness.tasks.table.protocols import BITS

ASKS_NUMBER = re.compile(r"\b(?:how|what|which|count|number|sum|total)\b", re.IGNORECASE)
"""A question, or a field's name, whose answers 1 and 0 are numbers."""
NOT_ANSWER_FIELD = re.compile(r"(?:.*_)?(?:confidence|id|type|kind|score|lang(?:uage)?)", re.I)
"""Names of fields that say something of an answer, and do not hold it."""
ENTITY = re.compile(r"&(?:[a-z]{2,8}|#\d{1,5}|#x[0-9a-f]{1,4});", re.IGNORECASE)
"""A character as HTML writes it: `&amp;`."""


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
    """Orders and units of boxes by fields such as `bbox_mode`."""
    has_semicolons: bool = False
    """True if the table's cells are between semicolons, as where commas stand before decimals."""

    def truth(self) -> Truth:
        """Return the form of the answers, and their convention as far as the values show it.

        The first form that fits wins, so the order matters. Options come first: where a record
        has some, its answer is one of them. Intervals come before masks, because several windows
        `[start, end]` look like the corners of a polygon; yes and no come before numbers, because
        1 and 0 may be either. Texts come last, because every value can be read as one.
        """
        if self.options is not None:
            return self._choice(self.options)
        boxes = truth_of_boxes(self.field, self.values, self.sizes, self.modes)
        masks = truth_of_masks(self.field, self.values, self.sizes)
        for truth in (boxes, self._interval(), masks):
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
        numbers = truth_of_numbers(
            self.field, self.values, self.questions, has_semicolons=self.has_semicolons
        )
        return self._text() if numbers is None else numbers

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
                texts = [key for key in texts if not NOT_ANSWER_FIELD.fullmatch(key)]
                texts.sort(key=lambda key: not re.fullmatch(NAMES["answer"], key, re.I))
                if isinstance(value, list) and texts:
                    doubt += f'; field = "{self.field}.0.{texts[0]}" reads the first alone'
                return Truth("text", doubts={"form": " ".join(doubt.split())})
        rows = [
            len(value)
            for value in self.values
            if isinstance(value, list) and is_row(value, len(value))
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
        if REGION_FIELD.fullmatch(self.field):
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
        complete = {name: read for name, read in places.items() if None not in read}
        if not complete:
            are_places = all(text.isdecimal() for text in texts)
            are_letters = all(re.fullmatch(r"[A-Za-z]", text) for text in texts)
            written = "place" if are_places else "letter" if are_letters else "option"
            doubts = {"written": "no such options are there"} if written != "option" else {}
            return Truth("choice", {"written": written}, doubts)
        written = next(iter(complete))
        differing = [name for name, read in complete.items() if read != complete[written]]
        doubt = f"or {' or '.join(differing)}? The values allow each" if differing else ""
        return Truth("choice", {"written": written}, {"written": doubt} if doubt else {})

    def _interval(self) -> Truth | None:
        """Return how intervals are written; None for values that are not times."""
        are_times = TIMES.search(self.field)
        if not (self.has_video or are_times) or not self.values:
            return None
        values = list(map(only_window, self.values))
        keys: dict[str, object] = {"written": "seconds"}
        doubt = "seconds, or milliseconds? Numbers of frames or of segments are not read"
        if all(is_row(value, 2) for value in values):
            if all(max(row) <= 1 for value in values for row in rows_of(value)):
                doubt = "all end within 1 s: parts of the video? Multiply those by its length"
            elif any(start >= end for value in values for start, end in rows_of(value)):
                doubt += "; some end where they begin or before: are they [start, duration]?"
            return Truth("interval", keys, {"written": doubt})
        rows: list[object] = []
        for value in values:
            rows += rows_of(value) or [None]
        if are_times and all(is_row(row, 2) for row in rows):
            several = "some have several windows, and an interval is one"
            if any(start == end for value in values for start, end in rows_of(value)):
                several += "; some end where they begin: are they numbers of pieces? Write seconds"
            return Truth("interval", keys, {"form": several, "written": doubt})
        if not all(isinstance(value, (str, list)) and clock_span(value) for value in values):
            return None
        are_clocks = all(":" in str(value) for value in values)
        return Truth("interval", keys, {} if are_clocks else {"written": doubt})


def _fields_of(value: object) -> Iterable[tuple[str, object]]:
    """Return the fields of an object; none of another value."""
    return value.items() if isinstance(value, dict) else ()


def _states_moment(text: str) -> bool:
    """Return True for a sentence that states the start and the end of a stretch of time."""
    with suppress(ParseError):
        return bool(re.search("second|sec\\b|\\ds\\b|:", text)) and bool(stated_interval(text))
    return False

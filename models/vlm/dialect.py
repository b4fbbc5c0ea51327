r"""Ask each family of VLMs for places in its own words, and read its answers: a TOML file each.

`Dialect` is the prompt of the plugin `vlm`. The keys of a file in `dialects/` are:

    family = "InternVL3.5"              name for people
    checkpoints = ["OpenGVLab/…"]       some names on the hub
    source = "…"                        where the request and the numbers are from
    confirmed = true                    false: its authors do not say what the numbers mean
    coordinates = "normalized_1000"     harness.coordinates.Coordinates
    request = "… {Question}"            its text
    marks = ["<ref>", "</ref>"]         optional: special tokens of the request
    within = '<box>(.*?)</box>'         optional: the parts of a response that hold objects
    object = '\[{N}{,}{N}{,}{N}{,}{N}\]' one object: four numbers are a box, two a point
    point = '\[{N}{,}{N}\]'            optional: one object of an answer without such a box
    sign = '<loc_\d'                   optional: what no other family writes, for `models.signs`
    none = '\[\s*\]'                   optional: the answer that there is no object, as it is read
    empty = "[]"                        optional: that answer, as it is written
    each, between, whole                texts of an object ({n}: its number), between two, of all

In a pattern {N} is a number and {,} a comma with blanks around it. In a family whose objects are
boxes with x first, two corners are read as a box too (`harness.models.box_corners`).
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import get_args

from harness.coordinates import Coordinates
from harness.errors import ParseError, UsageError
from harness.models.box_corners import boxes_of_corners
from harness.models.envelope import Read, read_response
from harness.models.grammar import (
    MAX_OBJECTS,
    Item,
    ParseResult,
    ask_for_frame,
    frame_tag,
    label_of,
    numerals,
    read_box,
)
from harness.models.prompts import fill
from harness.responses import MAX_TEXT
from harness.stated.corrections import LONGEST, after_correction
from harness.types import Box, Point

FOLDER = files("harness.models.vlm").joinpath("dialects")
NUMBER = r"(-?\d{1,9}(?:\.\d{1,9})?)"
COMMA = r"\s{0,9},\s{0,9}"
LEFT_OVER = re.compile(
    r"\[[^\[\]{}\"]{0,80}\d|\"box_2d\"|<loc|<\d{1,9}>|\A[\s\d;:,.]*\d{3}"
    r"|\"b?box\w{0,9}\"\s{0,9}:\s{0,9}(?!\[*[\]\s,}])"
)
"""Matches remains of a place in another form, such as "[12" or "<loc": to ignore them would change
the number of objects."""
PLACE = "\0"
"""Replaces each box or point in a text, which is then split at it."""
REJECTED_PLACE = re.compile(
    rf"\b(?i:not|instead of|rather than)\s{{0,4}}{PLACE}|~~\s{{0,4}}{PLACE}"
)
"""Matches a place that the words before it reject: "not [1, 2, 3, 4]"."""
ALTERNATIVE_WORDS = re.compile(
    r"(?i:\b(?:frames?|or|either|guess|final(?:ly)?|alternatively)\b)|→|->|=>"
)
"""Matches words between two places which say that only one counts: "or", "finally"."""
KEYED_TEXT = re.compile(r'"(\w{1,40})"\s{0,9}:\s{0,9}(?:\[\s{0,9})?"([^"\n]{0,200})"')
"""Matches a text under a key: `"label": "dog"`."""
RETRACTING_WORDS = re.compile(
    r"(?i:\b(?:wrong|incorrect|rejected|discarded|invalid|mistaken?|ignore(?: (?:it|that|this))?"
    r"|not (?:it|that|this|the|correct|right)|nope|nah|no)\b)|[✗✘❌]"
)
"""Matches words between two places, outside a name, that retract the first: "wrong", "no"."""
NAME_IN_TAG = re.compile(
    r"<(ref|\|?\w{0,20}ref\w{0,20}\|)>.{0,500}?</?\|?\w{0,20}ref\w{0,20}\|?>", re.DOTALL
)
"""Matches a name in a tag: `<ref>dog</ref>`."""
LABELS = re.compile(r"""["']labels["']\s?:\s?\[([^\[\]]{0,4000})\]""")
"""Matches a list of labels: `'labels': ['dog', 'cat']`."""
QUOTED_LABEL = re.compile(r"""'([^']*)'|"([^"]*)\"""")
OBJECT_ENDS = re.compile(r"\}\s{0,9},?\s{0,9}\{")
"""Matches the braces between two JSON objects: `}, {`."""
MARKUP = re.compile(
    r'<[^<>]{0,60}>|"(?:b?box\w{0,9}|points?\w{0,9}|label|objects?|coordinates?|answer)"\s{0,9}:'
    r"|```\w{0,20}"
)
"""Matches tags, keys and fences around places, which belong to no label."""
BEGUN_PLACE = re.compile(
    r"<points?\b|<bbox\b|<\|box_start\|>|\"POINT\"|\b(?:start_box|point)="
    r"|\[\["
)
"""Matches the beginning of a place that `within` did not match, and that would not be counted."""
BOX, POINT = 4, 2  # numbers of a box, and of a point


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The wording of a family's requests for places, and the grammar of its responses."""

    name: str
    family: str
    checkpoints: tuple[str, ...]
    source: str
    confirmed: bool
    """True if the family's authors say what its numbers mean."""
    coordinates: Coordinates
    request: str
    marks: tuple[str, ...]
    """Special tokens of the request; they are removed from questions."""
    within: re.Pattern[str] | None = None
    object: re.Pattern[str]
    point: re.Pattern[str] | None = None
    none: re.Pattern[str] | None = None
    empty: str | None = None
    """Text that is written if there is no object; None: the family has no words for it."""
    whole: str
    each: str
    between: str
    resize: tuple[int, int] | None = None

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the request for a question, from which only the family's marks are removed."""
        while any(mark in text for mark in self.marks):  # what is left may be a mark again
            for mark in self.marks:
                text = text.replace(mark, "")
        return ask_for_frame(numbered) + fill(self.request, Question=text)

    def parse(self, response: str) -> ParseResult:
        """Read a response; never raises."""
        return read_response(response[:MAX_TEXT], self._read)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response for `items`, whose numbers are in the family's coordinates."""
        if not items and self.empty is not None:
            return frame_tag(frame) + self.empty
        objects = self.between.join(
            self._write_object(item, number) for number, item in enumerate(items, start=1)
        )
        question = next((item.phrase for item in items if item.phrase), "object")
        response = self.whole.replace("{objects}", objects).replace("{Question}", question)
        return frame_tag(frame) + response

    def _write_object(self, item: Item, number: int) -> str:
        """Return the text of an object, counted from 1."""
        coordinates = item.bounds if self.object.groups == BOX else item.place
        return self.each.format(*numerals(coordinates), n=number)

    def _read(self, answer: str) -> Read:
        """Return the objects of an answer, and a note if there are too many.

        Raises:
            ParseError: there is no object, one is in another form, or one does not count.
        """
        if self.none is not None and self.none.fullmatch(answer.strip()):
            return (), ()
        if self.object.groups == BOX and not self.coordinates.endswith("_yx"):
            corners = boxes_of_corners(answer)
            if corners:
                return corners, ()
        place = self.object
        if self.point is not None and place.search(answer) is None:
            place = self.point
        labels = iter(self._labels(answer, place))
        items: list[Item] = []
        within = self.within
        parts = [answer] if within is None else [match[1] for match in within.finditer(answer)]
        if parts and within is not None and (begun := BEGUN_PLACE.search(within.sub("", answer))):
            raise ParseError("response", expected="whole places", found=repr(begun.string[:60]))
        for part in parts:
            remainder = place.sub("", part)
            if (
                LEFT_OVER.search(remainder)
                or remainder.count("[") != remainder.count("]")
                or (self.point is not None and within is not None and remainder == part)
            ):
                raise ParseError(
                    "response", expected="each place in one form", found=repr(part[:60])
                )
            for match in place.finditer(part):
                numbers = [float(number) for number in match.groups()]
                is_point = len(numbers) == POINT
                item = Item(point=Point(*numbers)) if is_point else Item(read_box(numbers, "box"))
                items.append(item._replace(label=next(labels, "")))
                if len(items) == MAX_OBJECTS:
                    return tuple(items), (f"only the first {MAX_OBJECTS} objects",)
        if not items:
            raise ParseError(
                "response",
                expected=f"places as {self.family} writes them, such as {self.write([EXAMPLE])}",
                found=repr(answer.strip()[:60]),
            )
        return tuple(items), ()

    def _labels(self, answer: str, place: re.Pattern[str]) -> list[str]:
        """Return the label of each place of an answer, in order; fewer if labels are lacking.

        Labels are a list, or texts under keys; else the words before each place, if words precede
        the first one, or those after each.

        Raises:
            ParseError: a place is retracted, or only one of several counts.
        """
        rest = (self.within or place).sub(PLACE, answer)
        is_corrected = len(rest) < LONGEST and PLACE in rest.removesuffix(after_correction(rest))
        gap_words = [MARKUP.sub(" ", gap).strip(" \n\t[]{},.;:") for gap in rest.split(PLACE)]
        keyed = _listed_labels(rest) or _keyed_labels(rest.split(PLACE))
        either = not keyed and any(ALTERNATIVE_WORDS.search(gap) for gap in gap_words[1:-1])
        gaps = rest.split(PLACE)[1:-1] if not keyed else ()
        rejects = any(RETRACTING_WORDS.search(NAME_IN_TAG.sub(" ", gap)) for gap in gaps)
        if is_corrected or either or rejects or REJECTED_PLACE.search(rest):
            raise ParseError("response", expected="places without corrections", found=answer[:60])
        if keyed:
            return keyed
        return gap_words[:-1] if gap_words[0] else gap_words[1:]


def _listed_labels(rest: str) -> list[str]:
    """Return the labels of all places from one list, as Florence-2 writes it; [] without a list.

    Raises:
        ParseError: there are not as many labels as places.
    """
    lists = LABELS.findall(rest)
    if len(lists) != 1 or rest.count(PLACE) == 1:
        return []
    labels = [first or second for first, second in QUOTED_LABEL.findall(lists[0])]
    if len(labels) != rest.count(PLACE):
        raise ParseError(
            "labels", expected=f"{rest.count(PLACE)}, one a place", found=str(len(labels))
        )
    return labels


def _keyed_labels(gaps: Sequence[str]) -> list[str]:
    """Return each place's label from the texts under keys beside it; [] if no place has any.

    `gaps` are the texts before, between and after the places.
    """
    fields_by_place: list[dict[str, str]] = [{} for _ in gaps[1:]]
    for number, gap in enumerate(gaps):
        # Texts before the braces "}, {" belong to the place before, those after to the next one.
        ended = OBJECT_ENDS.search(gap)
        parts = (gap[: ended.start()], gap[ended.end() :]) if ended else (gap, gap)
        for index, part in ((number - 1, parts[0]), (number, parts[1])):
            if 0 <= index < len(fields_by_place):
                fields_by_place[index].update(KEYED_TEXT.findall(part))
    return list(map(label_of, fields_by_place)) if any(fields_by_place) else []


EXAMPLE = Item(box=Box(10, 20, 30, 40), point=Point(20, 30))
"""Object whose response an error shows as the expected form."""


def names() -> list[str]:
    """Return the names of all dialects, sorted."""
    file_names = (path.name for path in FOLDER.iterdir())
    return sorted(name.removesuffix(".toml") for name in file_names if name.endswith(".toml"))


@cache
def dialect(name: str) -> Dialect:
    """Return a dialect by its name.

    Raises:
        UsageError: no dialect has this name.
    """
    if name not in names():
        raise UsageError(f"dialect={name}", expected=f"one of {', '.join(names())}", found=name)
    plain = tomllib.loads(FOLDER.joinpath(f"{name}.toml").read_text("utf-8"))
    assert plain["coordinates"] in get_args(Coordinates), name
    plain.pop("sign", None)
    for key in ("within", "object", "point", "none"):
        if key in plain:
            text = plain[key].replace("{N}", NUMBER).replace("{,}", COMMA)
            plain[key] = re.compile(text, re.DOTALL)
    for key in ("checkpoints", "marks"):
        plain[key] = tuple(plain.get(key, ()))
    return Dialect(name=name, **plain)

"""Objects of a response, before anything is rescaled: boxes, points and phrases.

Methods share these pieces; each has its own tags, keys and wording (its `Prompt`). Reading takes
time linear in the response's length, whatever is in it, and raises nothing but ParseError.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

from harness.errors import ParseError
from harness.models.prompts import fill, text_of
from harness.responses import MAX_TEXT, Which, finite_numbers, loads_lenient, loads_strict
from harness.stated.corrections import after_correction
from harness.thoughts import parts_of, split_thought
from harness.types import Box, Point

MAX_OBJECTS = 120
"""Most objects of a response that are read, as in the official VisionReasoner reward."""

LABELS = ("label", "name", "object", "class", "category", "description")
"""Keys of the name of an object, which come before its other texts."""
MAX_LABEL = 200
"""Characters of a text that may name an object; a longer one is a mask or a story."""

FRAME = re.compile(r"\s*<frame>\s*(\d{1,9})\s*</frame>")


class Item(NamedTuple):
    """One object, by a box, a point or a phrase, or by several of them.

    Box and points are in one coordinate frame that the context names.
    """

    box: Box | None = None
    point: Point | None = None
    negative: Point | None = None
    """A point that is not on it."""
    second: Point | None = None
    """A second point on it."""
    phrase: str = ""
    """Words for the object. Without box and point: for every object that they fit."""
    label: str = ""
    """Name that the response gives the object, which no segmenter is prompted with."""

    @property
    def place(self) -> Point:
        """Return the point, or the middle of the box if there is none.

        Raises:
            ParseError: there is neither.
        """
        if self.point is not None:
            return self.point
        left, top, right, bottom = self.bounds
        return Point((left + right) / 2, (top + bottom) / 2)

    @property
    def bounds(self) -> Box:
        """Return the box, for a grammar or a reward that needs one.

        Raises:
            ParseError: there is none.
        """
        if self.box is None:
            given = "a phrase alone" if self.point is None else "a point alone"
            raise ParseError("object", expected="a box", found=given)
        return self.box


def numerals(values: Iterable[float]) -> list[int | float]:
    """Return coordinates as a response writes them: whole, or with at most three decimals.

    >>> numerals(Box(12.0, 0.5, 123 / 10, 40))
    [12, 0.5, 12.3, 40]
    """
    short = (round(float(value), 3) for value in values)
    return [int(value) if value.is_integer() else value for value in short]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseResult:
    """The content of a response: `items` or a `phrase` (neither: no target), or an `error`."""

    items: tuple[Item, ...] = ()
    """Objects in the numbers of the response (`harness.coordinates.Coordinates`): a box that a
    `_yx` network wrote holds (y1, x1, y2, x2), as written.
    """
    think: str = ""
    """The reasoning, without its tags."""
    phrase: str = ""
    """Words for every item that has none of its own; without items, the whole answer."""
    frame: int | None = None
    """The frame of a video that the response names, where it names one."""
    notes: tuple[str, ...] = ()
    """Repairs that were needed."""
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Return True if the response is in the grammar."""
        return self.error is None


class Prompt(Protocol):
    """The wording of one method's requests for places, and the grammar of its responses."""

    @property
    def name(self) -> str:
        """Short name for records."""

    @property
    def resize(self) -> tuple[int, int] | None:
        """(width, height) that images are squashed to; None: the processor's own rule."""

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the request for a question; a response must name one of the `numbered` frames."""

    def parse(self, response: str) -> ParseResult:
        """Read a response, with the repairs that inference may make."""

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response that expresses `items`, given in its numbers (see `numerals`).

        Each item has a box, a point and, as its phrase, the words of the question: a grammar writes
        those of them that it has.
        """


def well_formed(response: str, *between: str) -> bool:
    r"""Return True if the whole response is `<think>`, each tag of `between`, and `<answer>`.

    Equal to `fullmatch` of `<think>.*?</think>\s*<tag>.*?</tag>\s*<answer>.*?</answer>`, in which
    `.` matches line breaks, but never slower than linear: each seam is looked for at its first
    place, which leaves the most to the rest.

    >>> well_formed("<think>a</think>\n<answer>b</answer>")
    True
    >>> well_formed("<think>a</think> so <answer>b</answer>")
    False
    """
    opening, end = "<think>", "</answer>"
    if not (response.startswith(opening) and response.endswith(end)):
        return False
    at = len(opening)
    for left, right in pairwise(("think", *between, "answer")):
        seam = re.compile(rf"</{left}>\s*<{right}>").search(response, at)
        if seam is None:
            return False
        at = seam.end()
    return at <= len(response) - len(end)


def split_frame(response: str) -> tuple[int | None, str]:
    """Take off a leading `<frame>k</frame>`: the frame, if one is named, and the rest.

    >>> split_frame("<frame>12</frame><think>…")
    (12, '<think>…')
    """
    match = FRAME.match(response[:MAX_TEXT])
    return (int(match[1]), response[match.end() :]) if match else (None, response)


class ResponseParts(NamedTuple):
    """A response taken apart, before its answer is read."""

    frame: int | None
    """The frame that it names before or after its thought."""
    think: str
    said: str
    """All after the thought and the frame."""


def take_apart(response: str) -> ResponseParts:
    """Split a response into the frame that it names, its thought, and what it says after both.

    >>> take_apart("<think>the third</think><frame>3</frame>[]")
    ResponseParts(frame=3, think='the third', said='[]')
    """
    parts = parts_of(response)
    named, said = split_frame(parts.said)
    if named is None:
        first = (split_frame(text)[0] for text in reversed(parts.before))
        named = next((frame for frame in first if frame is not None), None)
    return ResponseParts(named, split_thought(response)[0], said)


def several_answers(count: int, which: Which) -> tuple[str, ...]:
    """Return the note that a response has several answers, and which of them counts."""
    return (f"{count} answers: the {which} counts",) if count > 1 else ()


def frame_tag(frame: int | None) -> str:
    """Return the tag that `split_frame` reads; empty for None."""
    return "" if frame is None else f"<frame>{frame}</frame>"


def ask_for_frame(numbered: Sequence[int]) -> str:
    """Return the words that request the name of one frame shown; empty if there are none."""
    listed, prefix = ", ".join(map(str, numbered)), text_of("harness.models", "numbered_frames.txt")
    return fill(prefix.strip(), Numbers=listed) + "\n" if numbered else ""


def loads(text: str, *, strict: bool) -> tuple[object, tuple[str, ...]]:
    """Parse JSON; unless `strict`, with the repairs of `harness.responses`, which are returned."""
    if strict:
        return loads_strict(text), ()
    body = fenced(text)
    if body is None:
        return loads_lenient(text) if "```" not in text else (loads_strict(text), ())
    value, notes = loads_lenient(body) if "```" not in body else (loads_strict(body), ())
    return value, ("code fence", *notes)


def fenced(text: str) -> str | None:
    """Return the inside of the first ``` … ``` fence, without its language; None: no fence.

    Of several fences, those that later words take back do not count.
    """
    if text.count("```") > 2:
        text = after_correction(text)
    start = text.find("```")
    end = text.find("```", start + 3) if start >= 0 else -1
    return text[start + 3 : end].removeprefix("json").strip() if end >= 0 else None


def read_items(
    value: object, *, keys: Sequence[str], point: str | None = None, strict: bool = False
) -> tuple[tuple[Item, ...], tuple[str, ...]]:
    """Read `[{"<one of keys>": [x1, y1, x2, y2], "<point>": [x, y]}, …]`; with notes.

    Unless `strict`, one object stands for a list of it, and where no point is asked for, four
    numbers stand for an object.

    One object that is wrong makes the whole response wrong, as in the official parsers: leaving it
    out would change a count without a word. A box needs x1 < x2 and y1 < y2, and is never
    swapped. `strict` is for rewards, which take any four numbers as a box.

    Raises:
        ParseError: it is something else; text, true, false and NaN are not numbers.
    """
    notes: tuple[str, ...] = ()
    if not strict:
        value, notes = as_objects(value, keys[0], point)
    if not isinstance(value, list):
        raise ParseError("answer", expected="a list of objects", found=_type_name(value))
    if len(value) > MAX_OBJECTS:
        notes = (*notes, f"only the first {MAX_OBJECTS} of {len(value)} objects are read")
    items = tuple(
        _item(entry, f"object {number}", keys=keys, point=point, strict=strict)
        for number, entry in enumerate(value[:MAX_OBJECTS], start=1)
    )
    return items, notes


def as_objects(value: object, key: str, point: str | None = None) -> tuple[object, tuple[str, ...]]:
    """Return a list of objects in place of what is nearly one, with a note."""
    notes: tuple[str, ...] = ()
    is_row = isinstance(value, list) and bool(value) and not isinstance(value[0], (list, Mapping))
    if (isinstance(value, Mapping) and value) or (is_row and point is None):
        value, notes = [value], ("one object without a list",)
    if isinstance(value, list) and point is None and any(isinstance(row, list) for row in value):
        value = [{key: row} if isinstance(row, list) else row for row in value]
        notes = notes or ("boxes without keys",)
    return value, notes


def read_box(value: object, what: str, *, strict: bool = False) -> Box:
    """Return the box of four numbers, which has an area unless `strict`.

    Raises:
        ParseError: it is none.
    """
    box = Box(*finite_numbers(value, 4, what))
    if not strict and (box.right <= box.left or box.bottom <= box.top):
        raise ParseError(what, expected="x1 < x2 and y1 < y2", found=str(list(box)))
    return box


def _item(
    value: object, what: str, *, keys: Sequence[str], point: str | None, strict: bool
) -> Item:
    wanted = (" or ".join(keys), *([point] if point else []))
    known = value if isinstance(value, Mapping) else {}
    key = next((key for key in keys if key in known), None)
    if key is None or (point is not None and point not in known):
        shown = ", ".join(map(str, value))[:60] if isinstance(value, Mapping) else _type_name(value)
        raise ParseError(what, expected=" and ".join(wanted), found=shown or "neither")
    box = read_box(known[key], f"{what}: {key}", strict=strict)
    place = None if point is None else finite_numbers(known[point], 2, f"{what}: {point}")
    spot = None if place is None else Point(*place)
    return Item(box, spot, label="" if strict else label_of(known))


def label_of(fields: Mapping[str, object]) -> str:
    """Return all texts of an object, also those of languages and lists: any may be its name.

    >>> label_of({"bbox_2d": [1, 2, 3, 4], "names": {"zh": "狗", "en": "dog"}, "label": "animal"})
    'animal 狗 dog'
    """
    keys = sorted(fields, key=lambda key: key not in LABELS)
    return " ".join(text for key in keys for text in _texts(fields[key]) if len(text) <= MAX_LABEL)


def _texts(value: object) -> list[str]:
    """Return a text, or those of a list or a mapping."""
    rows = value.values() if isinstance(value, Mapping) else value
    listed = [rows] if isinstance(rows, str) or not isinstance(rows, Iterable) else rows
    return [text for text in listed if isinstance(text, str)]


def _type_name(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]}"
